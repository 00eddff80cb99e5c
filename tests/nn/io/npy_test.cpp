// Tests of npy files. They compare bytes with the specification (numpy.lib.format), exchange files
// with NumPy if it is installed, and check every error.
#include "nn/io/npy.h"

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace std::string_literals;
using heed::testing::Folder;

// Returns true if shape, dtype and elements are equal.
bool same(const Tensor& x, const Tensor& y) {
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         dispatch_any(x.dtype(), [&]<class T> { return x.to_vector<T>() == y.to_vector<T>(); });
}

// Returns the bytes of a file with this header and these elements. The header is padded as in files
// of NumPy.
std::string npy(std::string header, const std::string& elements, char major = 1) {
  const std::size_t before = major == 1 ? 10 : 12;
  header.resize((before + header.size() + 1 + 63) / 64 * 64 - before, ' ');
  header.back() = '\n';
  std::string length = {char(header.size() & 0xFF), char(header.size() >> 8)};
  if (major > 1) length += "\0\0"s;
  return "\x93NUMPY"s + major + '\0' + length + header + elements;
}

// Returns the error text of load_npy() for a file with these bytes, or "" if the file is valid.
std::string refusal(const Folder& folder, const std::string& bytes) {
  std::ofstream(folder / "a.npy", std::ios::binary) << bytes;
  const std::string text = message_of<IoError>([&] { load_npy(folder / "a.npy"); });
  CHECK(text.find('\n') == std::string::npos);
  CHECK((text.empty() || text.find("a.npy") != std::string::npos));
  return text;
}

TEST_CASE("an array is written with the bytes of the specification") {
  const Folder folder;
  save_npy(folder / "a.npy", tensor({{1, 2, 3}, {4, 5, 6}}));
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  std::string elements;
  for (const char* hex : {"\0\0\x80\x3f", "\0\0\0\x40", "\0\0\x40\x40", "\0\0\x80\x40",
                          "\0\0\xa0\x40", "\0\0\xc0\x40"})
    elements.append(hex, 4);
  const std::string bytes = read_file(folder / "a.npy");
  CHECK(bytes == npy(header, elements));
  CHECK((bytes.size() - elements.size()) % 64 == 0);

  const auto header_of = [&](const Tensor& x) {
    save_npy(folder / "b.npy", x);
    const std::string text = read_file(folder / "b.npy").substr(10);
    return text.substr(0, text.find('}') + 1);
  };
  CHECK(header_of(tensor(1.0)) == "{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
  CHECK(header_of(tensor({1, 2}, int64)) ==
        "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }");
  CHECK(header_of(zeros({0, 2}, float64)) ==
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2), }");
}

TEST_CASE("arrays of every dtype and stride are read back unchanged") {
  const Folder folder;
  Generator g(1);
  for (const Tensor& x :
       {randn({3, 4}, float32, g), transpose(randn({3, 4, 2}, float64, g), 0, 1),
        tensor({-1, 1 << 30}, int64), from_data(std::vector<bool>{true, false, true}, {3}),
        zeros({2, 0, 3}), tensor(0.5), expand(randn({1, 3}, float32, g), {4, 3})}) {
    save_npy(folder / "a.npy", x);
    const Tensor y = load_npy(folder / "a.npy");
    CHECK(same(x, y));
  }
  CHECK_THROWS_AS(save_npy(folder / "nowhere" / "a.npy", tensor(1.0)), IoError);
}

TEST_CASE("Fortran order, small integers and later versions of the format are read") {
  const Folder folder;
  const auto load = [&](const std::string& bytes) {
    write_file(folder / "a.npy", bytes);
    return load_npy(folder / "a.npy");
  };
  const std::string six = "\1\2\3\4\5\6";
  const Tensor turned =
      load(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", six));
  CHECK(same(turned, tensor({{1, 3, 5}, {2, 4, 6}}, int64)));
  CHECK(same(load(npy("{\"shape\":(6,),\"fortran_order\":False,\"descr\":\"|i1\"}", six, 2)),
             tensor({1, 2, 3, 4, 5, 6}, int64)));
  CHECK(same(load(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", "\xff\xff\1\1")),
             tensor({-1, 257}, int64)));
}

TEST_CASE("an invalid npy file is rejected before memory is allocated") {
  const Folder folder;
  const std::string rest = "'fortran_order': False, 'shape': ";
  const auto header = [&](const std::string& shape, const std::string& descr = "<f4") {
    return "{'descr': '" + descr + "', " + rest + shape + ", }";
  };
  const auto check_error = [&](const std::string& bytes, const std::string& what) {
    const std::string text = refusal(folder, bytes);
    INFO(text);
    CHECK(text.find(what) != std::string::npos);
  };
  check_error("", "does not begin");
  check_error("\x93NUMPZ\1\0\0\0"s, "does not begin");
  check_error(npy(header("(1,)"), "1234", 9), "version 9");
  check_error("\x93NUMPY\2\0\xff\xff\xff\xff"s, "4294967295 bytes");
  check_error(npy(header("(2, 2)"), "1234"), "needs 16 bytes of <f4, but 4 follow");
  check_error(npy(header("(1,)"), "12345"), "5 follow");
  check_error(npy(header("(1099511627776, 1099511627776)"), ""), "at most 2^40");
  check_error(npy(header("(0, 1099511627776, 1099511627776)"), ""), "at most 2^40");
  check_error(npy(header("(99999999999999999999,)"), ""), "integer sizes");
  check_error(npy(header("(-1,)"), ""), "integer sizes");
  check_error(npy(header("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "1234"), "at most 8 sizes");
  for (const char* descr : {"<f2", ">f4", "<c8", "|O", "<U3"})
    check_error(npy(header("(1,)", descr), "1234"), "its elements are \""s + descr);
  const std::string structured = "[('True', '<f4'), ('t', '<i8', (2,)), ]";
  check_error(npy("{'descr': " + structured + ", " + rest + "(1,), }", "1234"),
              R"(its elements are [["True","<f4"],["t","<i8",[2]]])");
  for (const std::string& bad :
       {"{'descr': '<f4', 'shape': (1,), }"s, "{'descr': '<f4', 'descr': '<f4'}"s,
        "{'descr': '<f4"s, "[1]"s, header("(1,)") + " x", header("[1]"),
        "{'descr': '<f4', 'fortran_order': false, 'shape': (1,), }"s,
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }"s})
    check_error(npy(bad, "1234"),
                "its header is not a Python dictionary of descr, fortran_order and shape; the file "
                "is damaged, or");
}

TEST_CASE("a file of 4 TB is rejected after its first bytes") {
  const Folder folder;
  const auto refusal_of = [&](const std::string& bytes) {
    write_file(folder / "a.npy", bytes);
    std::filesystem::resize_file(folder / "a.npy", std::uintmax_t{1} << 42);
    return message_of<IoError>([&] { load_npy(folder / "a.npy"); });
  };
  CHECK_THAT(refusal_of(""), Contains("it does not begin like an npy file"));
  CHECK_THAT(refusal_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "")),
             Contains("needs 4 bytes of <f4, but 4398046510976 follow"));
}

TEST_CASE("randomly damaged files are read or throw IoError") {
  const Folder folder;
  save_npy(folder / "a.npy", tensor({{1, 2, 3}, {4, 5, 6}}));
  const std::string good = read_file(folder / "a.npy");
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (int n = 0; n < 3; ++n) bytes[random() % 80] = char(random());
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    refused += !refusal(folder, bytes).empty();
  }
  CHECK(refused > 2000);
}

TEST_CASE("NumPy reads our files, and we read those of NumPy") {
  if (std::system("python3 -c 'import numpy' 2> /dev/null") != 0) {
    WARN("NumPy is not installed (python3-numpy): not compared");
    return;
  }
  const Folder folder;
  save_npy(folder / "a.npy", tensor({{1, 2, 3}, {4, 5, 6}}, float64));
  const std::string script =
      "import numpy as n; a = n.load('" + (folder / "a.npy").string() +
      "'); assert a.dtype == n.float64 and (a == [[1, 2, 3], [4, 5, 6]]).all(); n.save('" +
      (folder / "b.npy").string() + "', n.asfortranarray(a.astype('<f4')))";
  REQUIRE(std::system(("python3 -c \"" + script + "\"").c_str()) == 0);
  CHECK(same(load_npy(folder / "b.npy"), tensor({{1, 2, 3}, {4, 5, 6}})));
}

}  // namespace
