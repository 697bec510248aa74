/* file/facts.c: facts about the folder for the doctor: its path, its file system, and whether its files survive a
 * restart.
 *
 * No state; thread-safe; changes nothing. */
#include "storage/file/file.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/* Numbers that linux/magic.h lacks, from the sources of the file systems. */
#define MAGIC_CIFS 0xFF534D42u
#define MAGIC_GPFS 0x47504653u
#define MAGIC_LUSTRE 0x0BD00BD0u
#define MAGIC_SMB2 0xFE534D42u
#define MAGIC_ZFS 0x2FC12FC1u

static const struct {
  uint32_t magic;
  const char *name;
  bool forgets;
} file_systems[] = {
    {EXT4_SUPER_MAGIC, "ext4", false}, {XFS_SUPER_MAGIC, "xfs", false}, {BTRFS_SUPER_MAGIC, "btrfs", false},
    {F2FS_SUPER_MAGIC, "f2fs", false}, {MAGIC_ZFS, "zfs", false},       {OVERLAYFS_SUPER_MAGIC, "overlay", false},
    {NFS_SUPER_MAGIC, "nfs", false},   {MAGIC_CIFS, "cifs", false},     {MAGIC_SMB2, "smb", false},
    {CEPH_SUPER_MAGIC, "ceph", false}, {MAGIC_LUSTRE, "lustre", false}, {MAGIC_GPFS, "gpfs", false},
    {FUSE_SUPER_MAGIC, "fuse", false}, {TMPFS_MAGIC, "tmpfs", true},    {RAMFS_MAGIC, "ramfs", true},
};

/* Removes the last segment; "/" stays "/". */
static void to_parent(char *path) {
  char *slash = strrchr(path, '/');
  path[slash == path ? 1 : slash - path] = '\0';
}

/* Finds the file system of the folder, or the one it will be on. Returns 0 or an errno value. */
static int find_file_system(const char *root, struct statfs *info, dev_t *device, bool *there) {
  struct stat folder;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", root[0] == '\0' ? "/" : root);
  *there = true;
  while (statfs(path, info) != 0) {
    if (errno != ENOENT || strcmp(path, "/") == 0)
      return errno;
    *there = false;
    to_parent(path);
  }
  *device = stat(path, &folder) == 0 ? folder.st_dev : 0;
  return 0;
}

/* Copies the value of an option from "a=1,b,c=2". An option without a value gives "". False: the option is absent. */
static bool mount_option(const char *options, const char *name, char *value, size_t size) {
  size_t length = strlen(name);
  for (const char *at = options; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, name, length) != 0 || strchr("=,\n", at[length]) == NULL)
      continue;
    at += length + (at[length] == '=');
    snprintf(value, size, "%.*s", (int)strcspn(at, ",\n"), at);
    return true;
  }
  return false;
}

/* Describes an NFS mount: its version, and options that keep two machines from seeing each other. */
static void tell_nfs(const char *options, char *name, size_t size) {
  char version[8] = "";
  char locks[16] = "";
  char ignored[8];
  (void)mount_option(options, "vers", version, sizeof version);
  bool local = mount_option(options, "local_lock", locks, sizeof locks) &&
               (strcmp(locks, "all") == 0 || strcmp(locks, "flock") == 0);
  bool blind = mount_option(options, "nocto", ignored, sizeof ignored);
  snprintf(name, size, "nfs %s%s%s", version,
           local ? ", mounted with locks that other machines do not see (nolock, local_lock): save "
                   "only from this machine"
                 : "",
           blind ? ", mounted so that changes of other machines become visible late (nocto)" : "");
}

/* Finds the mount of the folder by its device in the table of the kernel. */
static void find_nfs(dev_t device, char *name, size_t size) {
  char line[4096];
  char wanted[32];
  FILE *table = fopen("/proc/self/mountinfo", "re");
  if (table == NULL)
    return;
  snprintf(wanted, sizeof wanted, " %u:%u ", major(device), minor(device));
  while (fgets(line, sizeof line, table) != NULL) {
    const char *options = strrchr(line, ' ');
    if (strstr(line, wanted) != NULL && options != NULL)
      tell_nfs(options + 1, name, size);
  }
  (void)fclose(table);
}

static void tell_file_system(const struct statfs *info, char *name, size_t size, struct cleat__store_facts *facts) {
  for (size_t i = 0; i < sizeof file_systems / sizeof file_systems[0]; i++) {
    if (file_systems[i].magic != (uint32_t)info->f_type)
      continue;
    snprintf(name, size, "%s", file_systems[i].name);
    facts->forgets = file_systems[i].forgets;
    return;
  }
  snprintf(name, size, "file system 0x%x", (unsigned)info->f_type);
}

cleat_status cleat__file_describe(struct cleat__store *store, const char *key, struct cleat__store_facts *facts,
                                  struct cleat__call call) {
  const struct cleat__file_store *files = (struct cleat__file_store *)store;
  struct cleat__object object;
  struct statfs info;
  char name[240];
  dev_t device = 0;
  bool there = true;
  memset(facts, 0, sizeof *facts);
  int failure = find_file_system(files->root, &info, &device, &there);
  if (failure != 0)
    return cleat__file_fail(files, failure, "check", NULL, call.err);
  tell_file_system(&info, name, sizeof name, facts);
  if (info.f_type == NFS_SUPER_MAGIC)
    find_nfs(device, name, sizeof name);
  snprintf(facts->place, sizeof facts->place, "%.300s on %s%s", files->root[0] == '\0' ? "/" : files->root, name,
           there ? "" : "; the folder does not exist yet and is made now");
  snprintf(facts->checksum, sizeof facts->checksum, "CRC-32C");
  cleat_status status = cleat__store_head(store, key, &object, call);
  return status == CLEAT_NOT_FOUND ? CLEAT_OK : status;
}
