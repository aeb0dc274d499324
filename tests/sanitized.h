/* Whether a test is built with sanitizers. They check memory and threads, and not numbers, so a
 * test may compute less for them as long as it runs the same code. */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
