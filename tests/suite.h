/* Arguments of a suite. Each test_NAME.c is a suite: its main becomes suite_NAME of the component's
 * test program (ampscale_tests in tests/CMakeLists.txt), which sets these before it calls it. */
#pragma once

extern int suite_argc; /* as main's; suite_argv[0] is the suite's name */
extern char **suite_argv;
