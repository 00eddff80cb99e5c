// The program heed. Everything is in run_heed(), so that a test can link it with an op of its own.
#include "tools/heed/heed.h"

int main(int argc, char** argv) { return heed::run_heed(argc, argv); }
