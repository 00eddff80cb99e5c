// Tests of safetensors files: write and read back, every error, and loading into parameters.
#include <bit>

#include "autograd/base/files.h"
#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::testing;

// Returns the 8 bytes at the start of a file, which contain the length of the header.
std::string length_of(const std::string& header) {
  const std::uint64_t n = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &n, 8);
  return bytes;
}

// Returns the error text of load_safetensors() for this file, or "" if the file is valid.
std::string refusal(const std::string& path) {
  return message_of<IoError>([&] { load_safetensors(path); });
}
// Returns the error text of load_safetensors() for a file with these bytes, or "" if the file is
// valid.
std::string refusal_of_bytes(const Folder& folder, const std::string& bytes) {
  std::ofstream(folder / "bytes", std::ios::binary) << bytes;
  std::string text = refusal(folder / "bytes");
  CHECK(text.find('\n') == std::string::npos);
  return text;
}
// Returns the error text of load_safetensors() for a file with this header and `data` zero bytes,
// or "" if the file is valid.
std::string refusal_of(const Folder& folder, const std::string& header, std::size_t data = 0) {
  return refusal_of_bytes(folder, length_of(header) + header + std::string(data, '\0'));
}
// Returns a header with one tensor "x".
std::string header_of_x(const std::string& shape, const std::string& offsets,
                        const std::string& dtype = R"("F32")") {
  return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

// Tensors of all dtypes, with unusual names, shapes and strides.
std::vector<NamedTensor> examples() {
  Generator g(1);
  return {{"mask", from_data(std::vector<bool>{true, false, true}, {3})},
          {"blocks.0.weight", randn({3, 4}, float32, g)},
          {"wide", randn({2, 3, 2}, float64, g)},
          {"ids", tensor({-1, 1 << 30, 7}, int64)},
          {"scalar", tensor(0.1)},
          {"none", zeros({0, 5})},
          {"transposed", transpose(randn({3, 4}, float32, g), 0, 1)},
          {"every other", slice(randn({9}, float64, g), 0, 1, 9, 2)},
          {"expanded", expand(randn({1, 3}, float32, g), {4, 3})},
          {"ü\n\"", ones({1})},
          {"rank 8", ones({1, 1, 2, 1, 1, 2, 1, 1}).requires_grad_()}};
}

TEST_CASE("tensors are read back bit for bit") {
  const Folder folder;
  const std::vector<NamedTensor> tensors = examples();
  save_safetensors(folder / "f", tensors, {{"step", "17"}, {"note", "ß \"quoted\""}});
  const SafeTensors file = load_safetensors(folder / "f");
  CHECK(file.tensors.size() == tensors.size());
  CHECK(file.metadata.size() == 2);
  CHECK(file.metadata.at("note") == "ß \"quoted\"");
  for (const auto& [name, x] : tensors) {
    INFO(name);
    const Tensor y = file.find(name);
    REQUIRE(y.defined());
    CHECK(same_bits(x, y));
    CHECK(y.is_contiguous());
  }
  CHECK(!file.find("nothing").defined());
  CHECK(folder.files() == 1);
}

TEST_CASE("payloads of NaN and the sign of -0 are kept") {
  const Folder folder;
  const std::vector<float> odd = {std::bit_cast<float>(0x7fc12345u),
                                  std::bit_cast<float>(0xffa00001u), -0.0f,
                                  std::bit_cast<float>(1u), float(kInf)};
  const Tensor x = from_data(odd, {5});
  save_safetensors(folder / "f", {{"x", x}});
  CHECK(same_bits(x, load_safetensors(folder / "f").find("x")));
}

TEST_CASE("the data is aligned for any order of tensors") {
  const Folder folder;
  save_safetensors(folder / "f", examples());
  const std::string bytes = read_file(folder / "f");
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  CHECK(header % 8 == 0);
  std::vector<std::int64_t> sizes;
  for (const NamedTensor& t : load_safetensors(folder / "f").tensors)
    sizes.push_back(element_size(t.tensor.dtype()));
  CHECK(std::is_sorted(sizes.rbegin(), sizes.rend()));
}

TEST_CASE("a file without tensors is valid") {
  const Folder folder;
  save_safetensors(folder / "f", {});
  CHECK(load_safetensors(folder / "f").tensors.empty());
}

TEST_CASE("F16 and BF16 are read as float32, exactly") {
  const Folder folder;
  const auto read = [&](const std::string& dtype, const std::vector<std::uint16_t>& halves) {
    const std::string header =
        header_of_x("[" + std::to_string(halves.size()) + "]",
                    "[0," + std::to_string(2 * halves.size()) + "]", '"' + dtype + '"');
    std::string data(2 * halves.size(), '\0');
    std::memcpy(data.data(), halves.data(), data.size());
    std::ofstream(folder / "f", std::ios::binary) << length_of(header) << header << data;
    return load_safetensors(folder / "f").find("x").to_vector<float>();
  };
  const auto f =
      read("F16", {0x3c00, 0xc000, 0x3555, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x8000, 0x7c00, 0xfc00});
  CHECK(f == std::vector<float>{1, -2, 0.333251953125f, 65504, 0x1p-14f, 0x1p-24f, -1023 * 0x1p-24f,
                                0, float(kInf), -float(kInf)});
  CHECK(std::signbit(f[7]));
  CHECK(std::isnan(read("F16", {0x7e01})[0]));
  CHECK(read("BF16", {0x3f80, 0xc040, 0x0001, 0x7f80}) ==
        std::vector<float>{1, -3, std::bit_cast<float>(0x10000u), float(kInf)});
}

TEST_CASE("files that are not safetensors are rejected with a reason") {
  const Folder folder;
  const auto bytes = [&](const std::string& b) { return refusal_of_bytes(folder, b); };
  CHECK_THAT(refusal(folder / "missing"), Contains("missing: No such file"));
  CHECK_THAT(bytes(""), Contains("it has 0 bytes"));
  CHECK_THAT(bytes("1234567"), Contains("it has 7 bytes"));
  CHECK_THAT(bytes(std::string(8, '\xff')),
             Contains("header of 18446744073709551615 bytes, but only 0 follow"));
  CHECK_THAT(bytes(length_of("12") + "{"), Contains("header of 2 bytes, but only 1 follow"));
  CHECK_THAT(bytes(length_of("")), Contains("not a JSON object"));
}

TEST_CASE("invalid headers are rejected with a reason") {
  const Folder folder;
  const auto header = [&](const std::string& h, std::size_t data = 0) {
    return refusal_of(folder, h, data);
  };
  const std::string x = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  CHECK(header(R"({"x":)" + x + "}   ", 4).empty());  // this header is valid
  CHECK_THAT(header("[]"), Contains("not a JSON object"));
  CHECK_THAT(header(" {}"), Contains("not a JSON object"));
  CHECK_THAT(header("{"), Contains("not JSON in UTF-8 (error at byte 2"));
  CHECK_THAT(header("{}}"), Contains("not JSON"));
  CHECK_THAT(header("{\"\xff\":1}"), Contains("not JSON in UTF-8"));
  CHECK_THAT(header("{\"\\ud800\":1}"), Contains("not JSON"));
  CHECK_THAT(header(std::string("{}\0", 3)), Contains("zero byte"));
  CHECK_THAT(header(R"({"x":)" + x + R"(,"x":)" + x + "}", 4),
             Contains("contains the key \"x\" twice"));
  CHECK_THAT(header(R"({"x":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
             Contains("contains the key \"dtype\" twice"));
  CHECK_THAT(header(R"({"__metadata__":["a"]})"), Contains("its __metadata__ is not an object; "));
  CHECK_THAT(header(R"({"__metadata__":{"a":1}})"), Contains("\"a\" is 1, not text"));
  CHECK_THAT(header(R"({"x":7})"), Contains("lacks dtype, shape or data_offsets"));
  CHECK_THAT(header(R"({"x":{"dtype":"F32","shape":[1]}})"), Contains("lacks"));
  std::string deep = "{\"x\":";
  for (int i = 0; i < 1000000; ++i) deep += i % 2 ? "{\"a\":" : "[";
  CHECK_THAT(header(deep), Contains("levels deep"));
  CHECK_THAT(header("{\"x\":[" + std::string(2000000, '[')), Contains("levels deep"));
}

TEST_CASE("invalid tensors are rejected with their name") {
  const Folder folder;
  const auto tensor = [&](const std::string& shape, const std::string& offsets,
                          const std::string& dtype = R"("F32")", std::size_t data = 16) {
    std::string text = refusal_of(folder, header_of_x(shape, offsets, dtype), data);
    if (!text.empty()) CHECK_THAT(text, Contains("\"x\"") || Contains("list of more than 8"));
    return text;
  };
  CHECK(tensor("[2,2]", "[0,16]").empty());
  CHECK_THAT(tensor("[4]", "[0,16]", R"("I32")"), Contains("dtype \"I32\"; convert it"));
  CHECK_THAT(tensor("[4]", "[0,16]", "3"), Contains("has dtype"));
  CHECK_THAT(tensor("[-4]", "[0,16]"), Contains("[-4]") && Contains("integer sizes >= 0"));
  CHECK_THAT(tensor("[4.0]", "[0,16]"), Contains("integer sizes"));
  CHECK_THAT(tensor("[\"4\"]", "[0,16]"), Contains("integer sizes"));
  CHECK_THAT(tensor("4", "[0,16]"), Contains("a list of at most 8"));
  CHECK_THAT(tensor("[99999999999999999999999]", "[0,16]"), Contains("integer sizes"));
  CHECK_THAT(tensor("[18446744073709551615]", "[0,16]"), Contains("at most 2^40"));
  CHECK_THAT(tensor("[4294967296,4294967296]", "[0,0]"), Contains("at most 2^40"));
  CHECK_THAT(tensor("[0,4294967296,4294967296]", "[0,0]"), Contains("at most 2^40"));
  CHECK_THAT(tensor("[1,1,1,1,1,1,1,1,4]", "[0,16]"), Contains("more than 8 values"));
  CHECK_THAT(tensor("[4]", "[0,15]"), Contains("needs 16 bytes"));
  CHECK_THAT(tensor("[4]", "[16,0]"), Contains("needs 16 bytes"));
  CHECK_THAT(tensor("[4]", "[0,32]"), Contains("needs 16 bytes"));
  CHECK_THAT(tensor("[4]", "[0]"), Contains("needs [begin, end]"));
  CHECK_THAT(tensor("[4]", "[-16,0]"), Contains("needs [begin, end]"));
  CHECK_THAT(tensor("[4]", "[18446744073709551600,18446744073709551616]"),
             Contains("needs [begin, end]"));
  CHECK_THAT(tensor("[4]", "[18446744073709551599,18446744073709551615]"), Contains("cut off"));
  CHECK_THAT(tensor("[4]", "[0,16]", R"("F32")", 15),
             Contains("which has 15") && Contains("cut off"));
  CHECK_THAT(tensor("[3]", "[4,16]"), Contains("hole"));
  CHECK_THAT(refusal_of(folder, header_of_x("[4]", "[0,16]"), 17), Contains("1 bytes follow"));
  CHECK_THAT(refusal_of(folder, "{}", 3), Contains("3 bytes follow"));
  CHECK_THAT(refusal_of(folder,
                        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                        R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                        12),
             Contains("\"b\"") && Contains("overlap"));
  const std::string mask = header_of_x("[2]", "[0,2]", R"("BOOL")");
  CHECK_THAT(refusal_of_bytes(folder, length_of(mask) + mask + "\x01\x02"),
             Contains("element 1 is the byte 2"));
}

TEST_CASE("names from a file are escaped and cut in errors") {
  const Folder folder;
  const std::string text =
      refusal_of(folder, R"({"a\n\u001b[31m)" + std::string(500, 'x') + R"(":{}})");
  CHECK_THAT(text, Contains(R"("a\n\u001b[31mxxx)"));
  CHECK(text.size() < 400);
}

TEST_CASE("every flipped bit is detected") {
  const Folder folder;
  save_safetensors(folder / "good", examples(), {{"step", "17"}});
  const std::string good = read_file(folder / "good");
  CHECK(load_safetensors(folder / "good").checksum.size() == 8);
  for (std::size_t bit = 0; bit < 8 * good.size(); bit += kSanitized ? 7 : 1) {
    std::string bytes = good;
    bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << bit % 8));
    const std::string text = refusal_of_bytes(folder, bytes);
    if (text.find(folder.path().string()) == std::string::npos) FAIL("bit " << bit << ": " << text);
  }
}

TEST_CASE("a file without a checksum is read, one with a wrong checksum is rejected") {
  const Folder folder;
  const std::string x = R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  CHECK(refusal_of(folder, "{" + x, 4).empty());
  CHECK(refusal_of(folder, R"({"__metadata__":{"checksum":"sha256:12"},)" + x, 4).empty());
  for (const char* entry :
       {R"("heed_checksum":"crc32c:00000000")", R"("heed_checksum":"crc32c:0")",
        R"("heed_checksum":"md5:00000000")", R"("heed_checksum":"")",
        R"("Heed_checksum":"crc32c:00000000")", R"("heed_checksum": "crc32c:00000000")"})
    CHECK_THAT(refusal_of(folder, std::string(R"({"__metadata__":{)") + entry + "}," + x, 4),
               Contains("checksum"));
}

TEST_CASE("save_safetensors rejects invalid tensors and writes nothing") {
  const Folder folder;
  const auto save = [&](const std::vector<NamedTensor>& t,
                        const std::map<std::string, std::string>& m = {}) {
    save_safetensors(folder / "f", t, m);
  };
  const Tensor x = ones({2});
  CHECK_THROWS_WITH(save({{"a", x}, {"a", x}}), "save_safetensors: two tensors are named \"a\"");
  CHECK_THROWS_AS(save({{"__metadata__", x}}), ValueError);
  CHECK_THROWS_AS(save({{"__metadata__", x}}, {{"a", "b"}}), ValueError);
  CHECK_THROWS_AS(save({{"\xff", x}}), ValueError);
  CHECK_THROWS_AS(save({{"a", x}}, {{"k", "\xc3"}}), ValueError);
  CHECK_THROWS_AS(save({{"a", Tensor()}}), ValueError);
  CHECK_THROWS_AS(save({{"a", zeros({1}, tracked64)}}), DTypeError);
  CHECK(folder.files() == 0);
}

TEST_CASE("load_parameters copies all tensors or none") {
  const std::vector<NamedTensor> model = {{"ln.weight", zeros({2}).requires_grad_()},
                                          {"head.weight", zeros({2, 3}).requires_grad_()}};
  const auto load = [&](std::vector<NamedTensor> tensors) {
    load_parameters(model, {"run/model.safetensors", std::move(tensors), {}});
  };
  const NamedTensor ln = {"ln.weight", ones({2})}, head = {"head.weight", ones({2, 3})};
  CHECK_THROWS_WITH(
      load({ln}),
      "load_parameters: run/model.safetensors does not fit: missing head.weight [2, 3]; use a file "
      "with all tensors of this model");
  CHECK_THROWS_WITH(load({ln, head, {"ln.bias", ones({2})}}),
                    Contains("unexpected \"ln.bias\" (nearest: ln.weight)"));
  CHECK_THROWS_WITH(
      load({{"ln.weights", ones({2})}, {"head.weight", ones({3, 2}, float64)}}),
      "load_parameters: run/model.safetensors does not fit: missing ln.weight [2]; unexpected "
      "\"ln.weights\" (nearest: ln.weight); different: head.weight is float64 [3, 2] in the file, "
      "needs float32 [2, 3]; use a file with all tensors of this model");
  std::vector<NamedTensor> many = {ln, head};
  for (int i = 0; i < 100; ++i) many.push_back({"extra" + std::to_string(i), ones({1})});
  CHECK_THROWS_WITH(load(many), Contains("and 95 more"));
  for (const NamedTensor& p : model) CHECK(max(p.tensor.detach()).item() == 0);
  load({head, ln});
  for (const NamedTensor& p : model) CHECK(min(p.tensor.detach()).item() == 1);
}

}  // namespace
