/* Whether a test is built with sanitizers. Sanitizers check memory and threads, but no numbers. In
 * such a build, a test may therefore compute less, as long as it runs the same code. */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
