/* aws/credentials_profile.c: keys from a profile of the shared AWS files: static keys, a role of
 * another profile or place, a web identity, a program. See aws/provider.h. The files are read at
 * each search. Their contents are wiped.
 *
 * The order is that of the AWS SDKs. In the requested profile, a role comes before static keys.
 * In a profile that a source_profile names, static keys come first, so a profile may name
 * itself. */
#include "storage/aws/provider.h"

#include "base/mem.h"
#include "storage/aws/profile.h"
#include "storage/aws/sts.h"

#include <string.h>

/* Limit of profiles in a chain. Each costs a request to STS and 9 KiB of stack. */
#define CHAIN_MAX 5

/* One profile, from both files. */
struct sections {
  struct cleat__s3_profile credentials;
  struct cleat__s3_profile config;
};

struct walk {
  const struct cleat__s3_search *search;
  const char *names[CHAIN_MAX]; /* names of the profiles on the way; borrowed */
  unsigned depth;
};

static void clear_sections(struct sections *sections) {
  cleat__s3_profile_clear(&sections->credentials);
  cleat__s3_profile_clear(&sections->config);
}

static cleat_status load(const struct cleat__s3_settings *settings, const char *name, struct sections *sections,
                         struct cleat_error *err) {
  struct sections made = {CLEAT__S3_PROFILE_INIT, CLEAT__S3_PROFILE_INIT};
  cleat_status status = CLEAT_OK;
  if (settings->credentials_path)
    status = cleat__s3_profile_load(settings->credentials_path, CLEAT__S3_PROFILE_CREDENTIALS, name, &made.credentials,
                                    NULL, err);
  if (!status && settings->config_path)
    status = cleat__s3_profile_load(settings->config_path, CLEAT__S3_PROFILE_CONFIG, name, &made.config, NULL, err);
  if (status)
    clear_sections(&made);
  else
    *sections = made;
  return status;
}

/* Gets a setting. The credentials file comes first. An empty value counts as absent. */
static const char *get(const struct sections *sections, const char *key) {
  const char *value = cleat__s3_profile_get(&sections->credentials, key);
  if (!value || value[0] == '\0')
    value = cleat__s3_profile_get(&sections->config, key);
  return value && value[0] != '\0' ? value : NULL;
}

/* ---- Static keys ---- */

static cleat_status keys_of(const struct cleat__s3_profile *section, const char *path, const char *name,
                            struct cleat__s3_credentials *keys, bool *found, struct cleat_error *err) {
  char *place = cleat__strprintf("%s, profile '%s'", path, name);
  if (!place)
    return cleat__error_no_memory(err, "the credentials");
  const struct cleat__s3_key_names names = {place, "aws_access_key_id", "aws_secret_access_key", "aws_session_token",
                                            CLEAT_INVALID};
  const struct cleat__s3_key_texts texts = {cleat__s3_profile_get(section, names.id),
                                            cleat__s3_profile_get(section, names.secret),
                                            cleat__s3_profile_get(section, names.token)};
  cleat_status status = cleat__s3_keys_set(&names, texts, keys, found, err);
  cleat__free(place);
  return status;
}

/* Gets static keys. Both must be in the same file. */
static cleat_status static_keys(const struct cleat__s3_settings *settings, const struct sections *sections,
                                const char *name, struct cleat__s3_credentials *keys, bool *found,
                                struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  *found = false;
  if (settings->credentials_path)
    status = keys_of(&sections->credentials, settings->credentials_path, name, keys, found, err);
  if (!status && !*found && settings->config_path)
    status = keys_of(&sections->config, settings->config_path, name, keys, found, err);
  return status;
}

/* ---- Roles ---- */

static cleat_status resolve(struct walk *walk, const char *name, struct cleat__s3_credentials *keys, bool *found,
                            struct cleat_error *err);

static cleat_status source_place(const struct walk *walk, const char *name, const char *source,
                                 struct cleat__s3_credentials *keys, struct cleat_error *err) {
  static const struct {
    const char *name;
    cleat__s3_provider_fn *fetch;
  } places[] = {{"Environment", NULL},
                {"EcsContainer", cleat__s3_from_container},
                {"Ec2InstanceMetadata", cleat__s3_from_instance}};
  const struct cleat__s3_settings *settings = walk->search->settings;
  size_t i = 0;
  while (i < 3 && strcmp(source, places[i].name) != 0)
    i++;
  if (i == 3)
    return cleat__error_set(err, CLEAT_INVALID,
                            "profile '%s': credential_source is not one of Environment, "
                            "EcsContainer, Ec2InstanceMetadata",
                            name);
  bool found = false;
  cleat_status status = CLEAT_OK;
  if (places[i].fetch)
    status = places[i].fetch(walk->search, keys, &found, err);
  else if (settings->has_environment) {
    *keys = settings->environment;
    found = true;
  }
  if (!status && !found)
    return cleat__error_set(err, CLEAT_DENIED, "profile '%s': its credential_source %s has no keys", name,
                            places[i].name);
  return status;
}

/* Gets the keys that sign the request for the role. */
static cleat_status source_keys(struct walk *walk, const char *name, const struct sections *sections,
                                struct cleat__s3_credentials *keys, struct cleat_error *err) {
  const char *profile = get(sections, "source_profile");
  const char *place = get(sections, "credential_source");
  bool found = false;
  if (!profile == !place)
    return cleat__error_set(err, CLEAT_INVALID,
                            "profile '%s': role_arn needs exactly one of source_profile, "
                            "credential_source and web_identity_token_file",
                            name);
  if (place)
    return source_place(walk, name, place, keys, err);
  cleat_status status = resolve(walk, profile, keys, &found, err);
  if (!status && !found)
    return cleat__error_set(err, CLEAT_DENIED, "profile '%s': there are no keys in its source_profile '%s'", name,
                            profile);
  return status;
}

static cleat_status by_role(struct walk *walk, const char *name, const struct sections *sections,
                            struct cleat__s3_credentials *keys, struct cleat_error *err) {
  struct cleat__s3_credentials source = {0};
  struct cleat__s3_role role = {.arn = get(sections, "role_arn"),
                                .session_name = get(sections, "role_session_name"),
                                .external_id = get(sections, "external_id"),
                                .duration_s = get(sections, "duration_seconds"),
                                .source = &source};
  if (get(sections, "mfa_serial")) {
    (void)cleat__error_set(err, CLEAT_DENIED, "profile '%s': keys by mfa_serial are not supported", name);
    cleat__error_hint(err, "export keys into the environment first: aws configure "
                           "export-credentials --format env");
    return err->status;
  }
  cleat_status status = source_keys(walk, name, sections, &source, err);
  if (!status)
    status = cleat__s3_sts_assume(walk->search, &role, keys, err);
  cleat__s3_credentials_wipe(&source);
  return status;
}

static cleat_status by_web_identity(const struct walk *walk, const char *name, const struct sections *sections,
                                    struct cleat__s3_credentials *keys, struct cleat_error *err) {
  char *token = NULL;
  struct cleat__s3_role role = {.arn = get(sections, "role_arn"),
                                .session_name = get(sections, "role_session_name"),
                                .duration_s = get(sections, "duration_seconds")};
  if (!role.arn)
    return cleat__error_set(err, CLEAT_INVALID, "profile '%s': web_identity_token_file is set, but role_arn is not",
                            name);
  cleat_status status =
      cleat__s3_token_read(get(sections, "web_identity_token_file"), "the web identity token", &token, err);
  role.web_token = token;
  if (!status)
    status = cleat__s3_sts_assume(walk->search, &role, keys, err);
  cleat__s3_wipe_text(token);
  return status;
}

/* ---- One profile ---- */

static cleat_status by_process(const struct walk *walk, const char *name, const char *command,
                               struct cleat__s3_credentials *keys, struct cleat_error *err) {
  char *place = cleat__strprintf("profile '%s'", name);
  if (!place)
    return cleat__error_no_memory(err, "the credentials");
  cleat_status status = cleat__s3_from_process(walk->search, command, place, keys, err);
  cleat__free(place);
  return status;
}

/* Refuses ways to get keys that this chain does not support. */
static cleat_status check_supported(const struct sections *sections, const char *name, struct cleat_error *err) {
  const char *way = get(sections, "sso_session")     ? "sso_session"
                    : get(sections, "sso_start_url") ? "sso_start_url"
                                                     : NULL;
  if (!way)
    return CLEAT_OK;
  (void)cleat__error_set(err, CLEAT_DENIED, "profile '%s': keys by %s are not supported", name, way);
  cleat__error_hint(err, "export keys into the environment first: aws configure "
                         "export-credentials --format env");
  return err->status;
}

/* Gets the keys that `sections` configures, in the order of the SDKs. */
static cleat_status by_sections(struct walk *walk, const char *name, const struct sections *sections,
                                struct cleat__s3_credentials *keys, bool *found, struct cleat_error *err) {
  const struct cleat__s3_settings *settings = walk->search->settings;
  const char *process = get(sections, "credential_process");
  bool web = get(sections, "web_identity_token_file") != NULL;
  bool role = get(sections, "role_arn") != NULL && !web;
  cleat_status status = CLEAT_OK;
  *found = false;
  if (walk->depth > 1 || (!role && !web))
    status = static_keys(settings, sections, name, keys, found, err);
  if (status || *found)
    return status;
  if (role)
    status = by_role(walk, name, sections, keys, err);
  else if (web)
    status = by_web_identity(walk, name, sections, keys, err);
  else if (process)
    status = by_process(walk, name, process, keys, err);
  else
    return check_supported(sections, name, err);
  *found = !status;
  return status;
}

static cleat_status unknown(const struct cleat__s3_settings *settings, const char *name, struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_INVALID, "there is no profile '%s' in %s or %s", name,
                         settings->credentials_path ? settings->credentials_path : "~/.aws/credentials",
                         settings->config_path ? settings->config_path : "~/.aws/config");
  cleat__error_hint(err, "check AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE");
  return err->status;
}

/* Whether the profile was visited before, which is a loop unless it has static keys. */
static bool is_loop(const struct walk *walk, const char *name, const struct sections *sections) {
  bool passed = false;
  for (unsigned i = 0; i < walk->depth; i++)
    passed = passed || strcmp(walk->names[i], name) == 0;
  return passed && !get(sections, "aws_access_key_id");
}

static cleat_status resolve(struct walk *walk, const char *name, struct cleat__s3_credentials *keys, bool *found,
                            struct cleat_error *err) {
  const struct cleat__s3_settings *settings = walk->search->settings;
  struct sections sections;
  *found = false;
  if (walk->depth == CHAIN_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "profile '%s': the chain of source_profile has more than %d profiles",
                            walk->names[0], CHAIN_MAX);
  cleat_status status = load(settings, name, &sections, err);
  if (status)
    return status;
  bool exists = sections.credentials.found || sections.config.found;
  if (!exists && (walk->depth > 0 || settings->profile_named))
    status = unknown(settings, name, err);
  else if (exists && is_loop(walk, name, &sections))
    status =
        cleat__error_set(err, CLEAT_INVALID, "profile '%s': source_profile leads back to '%s'", walk->names[0], name);
  else if (exists) {
    walk->names[walk->depth++] = name;
    status = by_sections(walk, name, &sections, keys, found, err);
    walk->depth--;
  }
  clear_sections(&sections);
  return status;
}

cleat_status cleat__s3_from_shared_files(const struct cleat__s3_search *search, struct cleat__s3_credentials *keys,
                                         bool *found, struct cleat_error *err) {
  struct walk walk = {.search = search};
  return resolve(&walk, search->settings->profile, keys, found, err);
}
