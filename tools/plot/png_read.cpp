// The chunks of a PNG file, one after the other, without their pixels.
#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "tools/plot/png.h"
#include "tools/plot/png_format.h"

namespace heed::plot {
namespace {

constexpr std::size_t kMostText = 1'000'000;  // bytes, of all texts

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i)
    value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

// One file's chunks.
class PngReader {
 public:
  explicit PngReader(const std::string& path) : file_(path) {}

  PngInfo read() {
    if (file_.size() < kPngSignature.size() || bytes(0, kPngSignature.size()) != kPngSignature)
      refuse("it does not begin as a PNG file does");
    bool pixels = false;
    for (at_ = kPngSignature.size();;) {
      const std::string type = next_chunk();
      if (type == "IEND") break;
      pixels = pixels || type == "IDAT";
    }
    if (!pixels) refuse("it holds no pixels (IDAT); damaged");
    if (at_ != file_.size())
      refuse(file_.size() - at_, " bytes follow its end; damaged, or two files in one");
    return std::move(info_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    heed::fail<autograd::IoError>("png", "cannot read ", file_.path(), ": ", parts...);
  }

  // Of a length that the file is known to have.
  std::string bytes(std::uint64_t at, std::size_t size) const {
    std::string text(size, '\0');
    file_.read(at, std::as_writable_bytes(std::span(text)));
    return text;
  }

  // Reads the chunk at at_, which moves behind it; returns its type.
  std::string next_chunk() {
    constexpr std::uint64_t kFrame = 12;  // length, type, checksum
    if (file_.size() - at_ < kFrame) refuse("it ends before its last chunk (IEND): cut off");
    const std::string head = bytes(at_, 8), type = head.substr(4);
    const std::uint64_t length = u32_at(head, 0);
    if (!std::all_of(type.begin(), type.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }))
      refuse("a chunk at byte ", at_, " has no type of four letters; damaged");
    if (length > file_.size() - at_ - kFrame)
      refuse("chunk ", type, " at byte ", at_, " says ", length, " bytes, ",
             file_.size() - at_ - kFrame, " are left: cut off, or damaged");
    const bool first = at_ == kPngSignature.size();
    if (first != (type == "IHDR") || (first && length != 13) || (type == "IEND" && length > 0))
      refuse("chunk ", type, " of ", length, " bytes stands at byte ", at_, "; damaged");
    const bool is_text = type == "iTXt" || type == "tEXt";
    if (is_text && length > kMostText - text_bytes_)
      refuse("its texts have more than ", kMostText, " bytes");
    const std::string body = checked_body(type, length, first || is_text);
    if (first) take_size(body);
    if (is_text) take_text(type, body);
    at_ += kFrame + length;
    return type;
  }

  // The chunk's bytes if they are wanted; their checksum is compared in any case.
  std::string checked_body(const std::string& type, std::uint64_t length, bool wanted) const {
    constexpr std::uint64_t kPiece = 1 << 16;
    PngCrc crc;
    crc.add(type);
    std::string body;
    for (std::uint64_t done = 0; done < length;) {
      const std::string piece = bytes(at_ + 8 + done, std::size_t(std::min(kPiece, length - done)));
      crc.add(piece);
      if (wanted) body += piece;
      done += piece.size();
    }
    if (u32_at(bytes(at_ + 8 + length, 4), 0) != crc.value())
      refuse("the checksum of chunk ", type, " at byte ", at_, " is wrong; damaged");
    return body;
  }

  void take_size(const std::string& body) {
    info_.width = u32_at(body, 0), info_.height = u32_at(body, 4);
    if (info_.width == 0 || info_.height == 0)
      refuse("its size is ", info_.width, " x ", info_.height, "; damaged");
  }

  // tEXt: keyword, 0, Latin-1. iTXt: keyword, 0, whether compressed, method, language, 0,
  // translated keyword, 0, UTF-8.
  void take_text(const std::string& type, const std::string& body) {
    text_bytes_ += body.size();
    const std::size_t end = body.find('\0');
    if (end == std::string::npos || end == 0 || end > kLongestKeyword)
      refuse("chunk ", type, " at byte ", at_, " has no keyword of 1 to ", kLongestKeyword,
             " letters; damaged");
    std::size_t text = end + 1;
    bool compressed = false;
    if (type == "iTXt") {
      const std::size_t language = end + 3 < body.size() ? body.find('\0', end + 3) : body.npos;
      const std::size_t translated =
          language == body.npos ? body.npos : body.find('\0', language + 1);
      if (translated == body.npos)
        refuse("chunk iTXt at byte ", at_, " ends before its text; damaged");
      compressed = body[end + 1] != 0;
      text = translated + 1;
    }
    info_.texts.push_back({body.substr(0, end), compressed ? "(compressed)" : body.substr(text)});
  }

  autograd::InputFile file_;
  std::uint64_t at_ = 0;
  std::size_t text_bytes_ = 0;
  PngInfo info_;
};

}  // namespace

bool is_png(const std::string& path) {
  const autograd::InputFile file(path);
  std::string start(std::size_t(std::min<std::uint64_t>(file.size(), kPngSignature.size())), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  return start == kPngSignature;
}

PngInfo read_png_info(const std::string& path) { return PngReader(path).read(); }

}  // namespace heed::plot
