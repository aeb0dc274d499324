/* Whether a test is built with sanitizers. They look at memory and threads, and not at numbers: a
 * test may compute less for them where what is left takes the same ways through the code. */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
