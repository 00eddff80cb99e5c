// Main function of the program heed-bench.
#include "tools/bench/bench.h"
#include "tools/heed/heed.h"

int main(int argc, char** argv) { return heed::run_heed(argc, argv, heed::bench_program); }
