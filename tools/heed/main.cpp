// Main function of the program heed. All code is in run_heed(), so that a test can link it with
// additional ops.
#include "tools/heed/heed.h"

int main(int argc, char** argv) { return heed::run_heed(argc, argv); }
