// main() of heed_tests for Catch2 version 2.
#define CATCH_CONFIG_MAIN
#include "tests/support/catch.h"
