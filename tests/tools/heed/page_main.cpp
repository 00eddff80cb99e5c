// A program for page_test.py. It reads the data of a page as JSON from stdin, and writes the page
// to stdout.
#include <iostream>
#include <iterator>

#include "tools/heed/study/page/page.h"

int main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  std::cout << heed::study_page(heed::nn::Json::parse(text));
}
