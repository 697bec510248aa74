/* Device memory of the stand-in: a range of addresses for each device that nobody can access, and beside it
 * the bytes; and which host memory is pinned. */
#include "tests/fake_cudart/fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RANGE_BYTES ((size_t)1 << 32) /* of addresses, for each device */
#define ALIGN ((size_t)512)
#define FREED 0xEE

struct block {
  size_t offset, bytes;
};

struct memory {
  char *range; /* what callers see */
  char *real;  /* the bytes, at the same offsets */
  size_t total, used;
  struct block *blocks; /* live ones, by offset */
  size_t count, capacity;
};

static struct memory memories[FAKE_DEVICES_MAX];

static struct {
  char *memory;
  size_t bytes;
} pinned[64];
static size_t pinned_count;

static void *map(int protection) {
  void *mapped = mmap(NULL, RANGE_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    abort();
  return mapped;
}

void fake_memory_reset_locked(int devices, size_t device_bytes) {
  for (int i = 0; i < devices && i < FAKE_DEVICES_MAX; i++) {
    struct memory *memory = &memories[i];
    if (memory->range == NULL) {
      memory->range = map(PROT_NONE);
      memory->real = map(PROT_READ | PROT_WRITE);
    }
    memory->total = device_bytes;
    memory->used = 0;
    memory->count = 0;
  }
  pinned_count = 0;
}

int fake_memory_device(const void *address) {
  for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
    const char *range = memories[i].range;
    if (range != NULL && (const char *)address >= range && (const char *)address < range + RANGE_BYTES)
      return i;
  }
  return -1;
}

void *fake_memory_take_locked(int device, size_t bytes) {
  struct memory *memory = &memories[device];
  size_t size = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  if (size == 0 || size > memory->total - memory->used)
    return NULL;
  size_t at = 0;
  size_t index = 0;
  while (index < memory->count && memory->blocks[index].offset - at < size) {
    at = memory->blocks[index].offset + memory->blocks[index].bytes;
    at = (at + ALIGN - 1) / ALIGN * ALIGN;
    index++;
  }
  if (memory->count == memory->capacity) {
    memory->capacity = memory->capacity * 2 + 64;
    memory->blocks = realloc(memory->blocks, memory->capacity * sizeof(*memory->blocks));
    if (memory->blocks == NULL)
      abort();
  }
  memmove(memory->blocks + index + 1, memory->blocks + index, (memory->count - index) * sizeof(*memory->blocks));
  memory->blocks[index] = (struct block){at, bytes};
  memory->count++;
  memory->used += size;
  return memory->range + at;
}

/* The live block that holds the offset, or the count. */
static size_t find(const struct memory *memory, size_t offset) {
  size_t low = 0;
  size_t high = memory->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (memory->blocks[middle].offset + memory->blocks[middle].bytes <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low < memory->count && memory->blocks[low].offset <= offset ? low : memory->count;
}

bool fake_memory_give_locked(void *address) {
  int device = fake_memory_device(address);
  if (device < 0)
    return false;
  struct memory *memory = &memories[device];
  size_t offset = (size_t)((char *)address - memory->range);
  size_t index = find(memory, offset);
  if (index == memory->count || memory->blocks[index].offset != offset)
    return false;
  memset(memory->real + offset, FREED, memory->blocks[index].bytes);
  memory->used -= (memory->blocks[index].bytes + ALIGN - 1) / ALIGN * ALIGN;
  memory->count--;
  memmove(memory->blocks + index, memory->blocks + index + 1, (memory->count - index) * sizeof(*memory->blocks));
  return true;
}

void fake_memory_info_locked(int device, size_t *unused, size_t *total) {
  *unused = memories[device].total - memories[device].used;
  *total = memories[device].total;
}

void *fake_memory_real_locked(const void *address, size_t bytes) {
  const struct memory *memory = &memories[fake_memory_device(address)];
  size_t offset = (size_t)((const char *)address - memory->range);
  size_t index = find(memory, offset);
  if (index == memory->count || offset + bytes > memory->blocks[index].offset + memory->blocks[index].bytes)
    return NULL;
  return memory->real + offset;
}

bool fake_memory_pin_locked(void *memory, size_t bytes) {
  if (fake_memory_is_pinned_locked(memory, 1) || pinned_count == sizeof pinned / sizeof pinned[0])
    return false;
  pinned[pinned_count].memory = memory;
  pinned[pinned_count++].bytes = bytes;
  return true;
}

bool fake_memory_unpin_locked(void *memory) {
  for (size_t i = 0; i < pinned_count; i++) {
    if (pinned[i].memory == memory) {
      pinned[i] = pinned[--pinned_count];
      return true;
    }
  }
  return false;
}

bool fake_memory_is_pinned_locked(const void *memory, size_t bytes) {
  for (size_t i = 0; i < pinned_count; i++) {
    if ((const char *)memory >= pinned[i].memory && (const char *)memory + bytes <= pinned[i].memory + pinned[i].bytes)
      return true;
  }
  return false;
}

size_t fake_device_bytes(int device) {
  pthread_mutex_lock(&fake_lock);
  size_t used = memories[device].used;
  pthread_mutex_unlock(&fake_lock);
  return used;
}

size_t fake_pinned_bytes(void) {
  size_t bytes = 0;
  pthread_mutex_lock(&fake_lock);
  for (size_t i = 0; i < pinned_count; i++)
    bytes += pinned[i].bytes;
  pthread_mutex_unlock(&fake_lock);
  return bytes;
}
