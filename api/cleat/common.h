/* common.h: the version, and the macros that the other headers are written with. */
#ifndef CLEAT_API_CLEAT_COMMON_H
#define CLEAT_API_CLEAT_COMMON_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the headers, as a string: major.minor.patch. cleat_version tells that of the
 * library. */
#define CLEAT_VERSION "0.1.0"

/* Marks what libcleat exports. The library hides all other names. */
#if defined(__GNUC__)
#define CLEAT_API __attribute__((visibility("default")))
#else
#define CLEAT_API
#endif

/* Marks functions whose status must be checked: compilers warn when it is ignored. */
#if defined(__GNUC__)
#define CLEAT_MUST_USE __attribute__((warn_unused_result))
#else
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

/* Names the version of the library that is running.
 * Returns: a static string such as "0.1.0"; never NULL. */
CLEAT_API const char *cleat_version(void);

/* Tells the version of the CUDA Runtime that was built in. Makes no CUDA call.
 * Returns: 1000 * major + 10 * minor; 0: the library was built without CUDA. */
CLEAT_API int cleat_cuda_version(void);

#ifdef __cplusplus
}
#endif

#endif
