// Tests that the texts of a PNG file are read back and that a damaged file is rejected with an
// error of one line.
#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/pictures.h"

namespace heed::plot {
namespace {

using namespace std::string_literals;

// Returns a PNG file of 2 x 3 pixels with the texts of `metadata`.
std::string small_png(const std::vector<PngText>& metadata) {
  return encode_png(Image(2, 3), "two by three", metadata);
}

// Writes a file with these bytes and reads it. Returns the error text, or "" if reading succeeds.
std::string read_error(const testing::Folder& folder, const std::string& bytes) {
  const std::string path = folder / "p.png";
  std::ofstream(path, std::ios::binary) << bytes;
  const std::string text = message_of<autograd::IoError>([&] { read_png_info(path); });
  CHECK((text.empty() || text.find(path) != std::string::npos));
  CHECK(text.find('\n') == std::string::npos);
  return text;
}

// Returns the bytes of a text chunk with a correct checksum. They are taken from a file that
// encode_png has written.
std::string chunk(const std::string& keyword, const std::string& text) {
  const std::string with = small_png({{keyword, text}}), without = small_png({});
  const std::size_t at = with.find("IDAT") - 4, size = with.size() - without.size();
  return with.substr(at - size, size);
}

}  // namespace

TEST_CASE("the texts of a PNG are read back", "[plot]") {
  const testing::Folder folder;
  const std::vector<PngText> metadata = {
      {"Software", "heed 0.1"}, {"Command line", "heed study --prompt 'é…'"}, {"Empty", ""}};
  write_png(folder / "p.png", Image(2, 3), "a line\nand another", metadata);
  CHECK(is_png(folder / "p.png"));
  const PngInfo info = read_png_info(folder / "p.png");
  CHECK(info.width == 2);
  CHECK(info.height == 3);
  REQUIRE(info.texts.size() == 4);
  CHECK(info.texts[0] == PngText{"Description", "a line\\nand another"});
  for (std::size_t i = 0; i < metadata.size(); ++i) CHECK(info.texts[i + 1] == metadata[i]);
  CHECK_THROWS_AS(encode_png(Image(1, 1), "", {{"", "no keyword"}}), autograd::ValueError);
  CHECK_THROWS_AS(encode_png(Image(1, 1), "", {{std::string(80, 'k'), "long"}}),
                  autograd::ValueError);
  autograd::write_file(folder / "text", std::string_view("no picture"));
  CHECK_FALSE(is_png(folder / "text"));
  CHECK(read_error(folder, "no picture").find("does not begin with the PNG signature") !=
        std::string::npos);
}

TEST_CASE("a PNG that is cut off or has a flipped bit is rejected", "[plot]") {
  const testing::Folder folder;
  const std::string good = small_png({{"Software", "heed"}});
  CHECK(read_error(folder, good).empty());
  for (std::size_t size = 0; size < good.size(); ++size) {
    INFO(size << " bytes of " << good.size());
    CHECK(!read_error(folder, good.substr(0, size)).empty());
  }
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << bit % 8));
    INFO("bit " << bit);
    CHECK(!read_error(folder, bytes).empty());
  }
}

TEST_CASE("a PNG with wrong lengths is rejected without large allocations", "[plot]") {
  const testing::Folder folder;
  const std::string good = small_png({});
  const std::size_t first_text = 8 + 25, end = good.size() - 12;
  const auto with = [&](std::size_t at, const std::string& more) {
    return good.substr(0, at) + more + good.substr(at);
  };
  const auto check_error = [&](const std::string& bytes, const std::string& text) {
    INFO(read_error(folder, bytes));
    CHECK(read_error(folder, bytes).find(text) != std::string::npos);
  };
  check_error(with(first_text, "\xFF\xFF\xFF\xFFiTXt"s), "has a length of 4294967295 bytes");
  check_error(with(first_text, "\x7F\xFF\xFF\xF0IDAT"s), "has a length of 2147483632 bytes");
  check_error(good + "more", "4 bytes follow the last chunk (IEND)");
  check_error(good.substr(0, first_text) + good.substr(end), "no pixels");
  check_error(with(first_text, good.substr(8, 25)), "chunk IHDR");         // a second header
  check_error(good.substr(0, 8) + good.substr(first_text), "chunk iTXt");  // no header
  check_error(with(first_text, "\0\0\0\1\1\2\3\4"s), "four letters");
  const std::string large = chunk("Comment", std::string(600'000, 'x'));
  CHECK(read_error(folder, with(first_text, large)).empty());
  check_error(with(first_text, large + large), "more than 1000000 bytes");
  CHECK(read_error(folder, good.substr(0, 8)).find("cut off") != std::string::npos);
  std::filesystem::resize_file(folder / "p.png",
                               std::uintmax_t{1} << 42);  // the added bytes are zeros
  CHECK_THROWS_WITH(read_png_info(folder / "p.png"),
                    Contains("the chunk at byte 8 has a type that is not"));
}

}  // namespace heed::plot
