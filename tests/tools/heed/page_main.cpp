// A study's page of the JSON on stdin, to stdout: for page_test.py.
#include <iostream>
#include <iterator>

#include "tools/heed/study/page/page.h"

int main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  std::cout << heed::study_page(heed::nn::Json::parse(text));
}
