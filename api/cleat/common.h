/* common.h: the version, and the macros that the other headers are written with. */
#ifndef CLEAT_API_CLEAT_COMMON_H
#define CLEAT_API_CLEAT_COMMON_H

#ifdef __cplusplus
extern "C" {
#endif

#define CLEAT_VERSION "0.1.0"

#if defined(__GNUC__)
#define CLEAT_API __attribute__((visibility("default")))
#define CLEAT_MUST_USE __attribute__((warn_unused_result))
#else
#define CLEAT_API
#define CLEAT_MUST_USE
#endif

/* The value of every _INIT macro. In C it names the field, or -Wextra would miss the others. */
#ifdef __cplusplus
#define CLEAT_INIT_OF(type) \
  { sizeof(type) }
#else
#define CLEAT_INIT_OF(type) \
  { .struct_bytes = sizeof(type) }
#endif

/* The version of the library that is running, such as "0.1.0". Static string. */
CLEAT_API const char *cleat_version(void);

/* The CUDA Runtime that was built in, as 1000 * major + 10 * minor; 0: none. Makes no CUDA call. */
CLEAT_API int cleat_cuda_version(void);

#ifdef __cplusplus
}
#endif

#endif
