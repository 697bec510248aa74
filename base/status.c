/* Names and texts of the statuses. Static; any thread may call it. See api/cleat/error.h. */
#include "api/cleat.h"

const char *cleat_status_name(cleat_status status) {
  switch (status) {
#define STATUS_NAME(number, name, text) \
  case CLEAT_##name:                    \
    return #name;
    CLEAT_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
  }
  return "UNKNOWN";
}

const char *cleat_status_text(cleat_status status) {
  switch (status) {
#define STATUS_TEXT(number, name, text) \
  case CLEAT_##name:                    \
    return text;
    CLEAT_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
  }
  return "unknown status";
}
