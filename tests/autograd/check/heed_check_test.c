/* Tests of heed_check() (autograd/check/heed_check.h), compiled as C11: layouts, state between
 * calls, invalid arguments, failing callbacks, threads, second derivatives, jvp and bfloat16.
 * Prints each check that fails, and exits with 1 if there is one. */
#include "autograd/check/heed_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

static int failures = 0;

#define CHECK(ok) check((ok), #ok, __LINE__)
static void check(int ok, const char* what, int line) {
  if (ok) return;
  printf("heed_check_test.c:%d: failed: %s\n", line, what);
  ++failures;
}

/* y [2, 3] = a * b; z [3, 2] = the transpose of sin(a). The inputs a and b are [2, 3]. */
enum { kRows = 2, kColumns = 3, kSize = 6 };

static const int64_t kMatrix[] = {kRows, kColumns}, kTransposed[] = {kColumns, kRows};
static const heed_shape kInputs[] = {{2, kMatrix}, {2, kMatrix}};
static const heed_shape kOutputs[] = {{2, kMatrix}, {2, kTransposed}};
static const double kA[] = {0.5, -1.25, 0.25, 2, 0.75, -0.5}, kB[] = {1.5, 0.5, -2, 1, -0.75, 3};
static const void* const kX[] = {kA, kB};

/* Mistakes of the functions below, and two ways that are right. */
enum bug {
  kRight,
  kReadsDyWithStridesOfA,
  kReadsBWithStridesOfA,
  kRoundsAddressesDown,
  kReadsForward,
  kReadsZeroStridesAsOne,
  kReadsMissingAsOne,
  kIsZeroTheSecondTime,
  kSavesOneInput,
  kIsZeroForUsedDy,
  kWritesEarlierGradient,
  kWritesDy,
  kWritesInput,
  kWritesBesideInput,
  kIgnoresDy,
  kSquaresDy,
  kIsSingleUse,
  kAddsInAnyOrder,
  kRefusesStrides,
  kDomainEnds,
  kLeavesOutputEmpty,
  kBugs
};

struct state {
  enum bug bug;
  int calls;             /* calls of backward after the last forward */
  int all_calls;         /* calls of backward */
  int forwards;          /* calls of forward */
  int fails_at;          /* the call that fails, counted from 1; 0: none */
  int code;              /* the code that it returns */
  double a[kSize];       /* input a of the last forward */
  double used, used_now; /* an element of dy in earlier forwards, and after the last forward */
  double* gradient;      /* the gradient that the last backward wrote */
};

/* Returns element [r, c] of a matrix with `columns` columns, which is read with the given strides.
 */
static double* element(enum bug bug, const heed_array* m, const int64_t* strides, int64_t columns,
                       int64_t r, int64_t c) {
  int64_t s[] = {columns, 1};
  if (strides) memcpy(s, strides, sizeof s);
  for (int i = 0; i < 2; ++i) {
    if (bug == kReadsForward && s[i] < 0) s[i] = -s[i];
    if (bug == kReadsZeroStridesAsOne && s[i] == 0) s[i] = 1;
  }
  double* first = m->data;
  if (bug == kRoundsAddressesDown) first = (double*)((uintptr_t)first / 16 * 16);
  return first + r * s[0] + c * s[1];
}

static int result(const struct state* s) {
  return s->forwards + s->all_calls == s->fails_at ? s->code : 0;
}

static int forward(void* user, const heed_array* inputs, const heed_array* outputs) {
  struct state* s = user;
  const int64_t* strides = inputs[0].strides;
  if (s->bug == kRefusesStrides && strides) return HEED_UNDEFINED;
  if (s->bug == kDomainEnds && !(*(double*)inputs[0].data < 0.51)) return HEED_UNDEFINED;
  const int64_t* of_b = s->bug == kReadsBWithStridesOfA ? strides : inputs[1].strides;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      const double a = *element(s->bug, &inputs[0], strides, kColumns, r, c);
      ((double*)outputs[0].data)[r * kColumns + c] =
          a * *element(s->bug, &inputs[1], of_b, kColumns, r, c);
      if (s->bug != kLeavesOutputEmpty) ((double*)outputs[1].data)[c * kRows + r] = sin(a);
      s->a[r * kColumns + c] = a;
    }
  s->calls = 0;
  if (s->used_now != 0) s->used = s->used_now;
  if (s->bug == kWritesInput) *(double*)inputs[1].data += 1;
  if (s->bug == kWritesBesideInput && strides) ((double*)inputs[0].data)[kSize * 2] = 1;
  ++s->forwards;
  return result(s);
}

static double dy_at(const struct state* s, const heed_array* dy, const int64_t* strides,
                    int64_t columns, int64_t r, int64_t c) {
  if (!dy->data) return s->bug == kReadsMissingAsOne;
  const double e = *element(s->bug, dy, strides, columns, r, c);
  return s->bug == kIgnoresDy ? 1 : s->bug == kSquaresDy ? e * e : e;
}

static int backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                    const heed_array* grad_inputs) {
  struct state* s = user;
  ++s->calls, ++s->all_calls;
  if (s->bug == kIsSingleUse && s->calls > 1) return HEED_SINGLE_USE;
  const heed_array *dy = &grad_outputs[0], *dz = &grad_outputs[1];
  const int64_t* of_a = inputs[0].strides;
  const int64_t* of_dy = s->bug == kReadsDyWithStridesOfA ? of_a : dy->strides;
  const double used = dy->data ? *(double*)dy->data : 0;
  const int is_zero = (s->bug == kIsZeroTheSecondTime && s->calls > 1) ||
                      (s->bug == kIsZeroForUsedDy && used != 0 && used == s->used);
  s->used_now = used;
  double* const da = grad_inputs[0].data;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      const int k = r * kColumns + c;
      const double a =
          s->bug == kSavesOneInput ? s->a[k] : *element(s->bug, &inputs[0], of_a, kColumns, r, c);
      const double y = dy_at(s, dy, of_dy, kColumns, r, c);
      const double z = dy_at(s, dz, dz->strides, kRows, c, r);
      const double b = *element(s->bug, &inputs[1], inputs[1].strides, kColumns, r, c);
      da[k] = is_zero ? 0 : y * b + z * cos(a);
      if (s->bug == kAddsInAnyOrder) da[k] *= 1 + (s->all_calls % 3) * 0x1p-52;
      ((double*)grad_inputs[1].data)[k] = y * a;
    }
  if (s->bug == kWritesDy && dy->data) *(double*)dy->data *= 2;
  if (s->bug == kWritesEarlierGradient && s->gradient) s->gradient[2] = da[2];
  s->gradient = da;
  return result(s);
}

static heed_problem problem(struct state* s) {
  return (heed_problem){.size = sizeof(heed_problem),
                        .layouts = HEED_ALL_LAYOUTS,
                        .num_inputs = 2,
                        .input_shapes = kInputs,
                        .num_outputs = 2,
                        .output_shapes = kOutputs,
                        .user = s,
                        .forward = forward,
                        .backward = backward};
}

static int has(const heed_report* report, const char* text) {
  return strstr(heed_report_text(report), text) != NULL;
}
static int json_has(const heed_report* report, const char* text) {
  return strstr(heed_report_json(report), text) != NULL;
}

/* Checks that heed_check() returns this status and verdict, and that the text and the JSON contain
 * these texts. */
static void expect(const heed_problem* p, const void* const* x, int status, heed_verdict verdict,
                   const char* text, const char* json, int line) {
  heed_report* report = NULL;
  check(heed_check(p, x, NULL, &report) == status, "status", line);
  check(heed_report_verdict(report) == verdict, "verdict", line);
  check(has(report, text), text, line);
  check(json_has(report, json), json, line);
  if (!has(report, text)) puts(heed_report_text(report));
  heed_report_free(report);
}
#define EXPECT(p, verdict, text) expect((p), kX, HEED_OK, (verdict), (text), "", __LINE__)
#define EXPECT_JSON(p, x, verdict, text, json) \
  expect((p), (x), HEED_OK, (verdict), (text), (json), __LINE__)

static void test_right(void) {
  struct state s = {.bug = kRight};
  heed_problem p = problem(&s);
  EXPECT(&p, HEED_RIGHT,
         " digits agree with differences in 12 of 12 entries; 12 of 12 wrong versions of the "
         "gradient rejected, 0 equivalent; layouts 7 of 7, repeated 4 of 4; order 1, seed 1");
  p.caller = "PyTorch", p.layouts -= HEED_NEGATIVE + HEED_OFFSET;
  EXPECT(
      &p, HEED_RIGHT,
      "layouts 5 of 5, repeated 4 of 4; offset: not in PyTorch; negative strides: not in PyTorch");
  p.layouts = 0;
  EXPECT(&p, HEED_RIGHT, "layouts: not applicable, repeated 4 of 4; order 1");
  s.bug = kIsSingleUse, p = problem(&s);
  EXPECT(&p, HEED_RIGHT, "layouts 7 of 7, repeated 3 of 3; backward twice: single use; order 1");
  s.bug = kAddsInAnyOrder, p = problem(&s);
  EXPECT(&p, HEED_RIGHT, "repeated 4 of 4; order 1, seed 1");
  s.bug = kRefusesStrides, p = problem(&s);
  EXPECT(&p, HEED_RIGHT, "; transposed: inputs that forward does not accept; every second ");
  s.bug = kDomainEnds, p = problem(&s);
  EXPECT(&p, HEED_RIGHT, " in 12 of 12 entries; ");
}

static void test_wrong(void) {
  static const char* const texts[kBugs] = {
      [kReadsDyWithStridesOfA] =
          "with the gradient of output 0 transposed in memory, backward returns ",
      [kReadsBWithStridesOfA] = "with input 0 transposed in memory, forward returns ",
      [kRoundsAddressesDown] =
          "with the gradient of output 0 inside a larger array, backward returns ",
      [kReadsForward] =
          "with the gradient of output 0 with a negative stride, backward returns nan",
      [kReadsZeroStridesAsOne] = "with the gradient of output 0 constant and with strides of 0, ",
      [kReadsMissingAsOne] = "with the gradient of output 0 missing, backward returns ",
      [kIsZeroTheSecondTime] = "the second backward after one forward returns 0 for input 0 at [",
      [kSavesOneInput] = "backward at x, after forward at x and then at another point, returns ",
      [kIsZeroForUsedDy] = "backward after a second forward, with an array of dy that was used ",
      [kWritesEarlierGradient] =
          "backward changes the gradient of input 0 at [0, 2], which an "
          "earlier backward returned; it must return a new array",
      [kWritesDy] = "backward changes the gradient of output 0 at [0, 0]; it must only read",
      [kWritesInput] = "forward changes input 1 at [0, 0]; it must only read its arguments",
      [kWritesBesideInput] = "forward changes memory beside input 0",
      [kIgnoresDy] =
          "backward is not linear in dy, the gradient of the output: for dy = 0 it "
          "returns 2.377582562 for input 0 at [0, 0]",
      [kSquaresDy] = "backward is not linear in dy, the gradient of the output: for dy = u + w it ",
      [kLeavesOutputEmpty] = "not finite: output 1 at [0, 0]"};
  for (enum bug bug = 0; bug < kBugs; ++bug) {
    struct state s = {.bug = bug};
    const heed_problem p = problem(&s);
    if (texts[bug]) EXPECT(&p, HEED_WRONG, texts[bug]);
  }
}

static void test_json(void) {
  struct state s = {.bug = kReadsForward};
  heed_problem p = problem(&s);
  p.layouts -= HEED_MISSING;
  heed_report* report = NULL;
  CHECK(heed_check(&p, kX, NULL, &report) == HEED_OK);
  CHECK(json_has(report, "{\"verdict\":\"wrong\""));
  CHECK(json_has(report, "\"worst\":{\"input\":0,\"at\":["));
  CHECK(json_has(report,
                 "\"layouts\":{\"passed\":5,\"of\":6,\"not_applicable\":[\"missing gradient: not "
                 "accepted\"]},\"repeated\":{\"passed\":4,\"of\":4,\"not_applicable\":[]},"));
  char calls[80];
  snprintf(calls, sizeof calls, "\"forward_calls\":%d,\"backward_calls\":%d}", s.forwards,
           s.all_calls);
  CHECK(json_has(report, calls));
  heed_report_free(report);
}

/* Checks that the arguments are refused with this text. */
static void refused(const heed_problem* p, const void* const* x, const heed_check_options* options,
                    const char* text, int line) {
  heed_report* report = NULL;
  check(heed_check(p, x, options, &report) == HEED_INVALID, "HEED_INVALID", line);
  check(heed_report_verdict(report) == HEED_NOT_CHECKED, "HEED_NOT_CHECKED", line);
  check(has(report, text) && json_has(report, text), text, line);
  if (!has(report, text)) puts(heed_report_text(report));
  heed_report_free(report);
}
#define REFUSED(p, text) refused((p), kX, NULL, (text), __LINE__)

static void test_invalid_problems(void) {
  struct state s = {.bug = kRight};
  REFUSED(NULL, "heed_check: problem is NULL");
  heed_problem p = problem(&s);
  p.size = 8;
  REFUSED(&p, "problem has size 8, needs 112; set its member size to sizeof(heed_problem)");
  p = problem(&s), p.forward = NULL;
  REFUSED(&p, "forward is NULL");
  p = problem(&s), p.backward = NULL;
  REFUSED(&p, "backward and jvp are NULL");
  p = problem(&s), p.dtype = 4;
  REFUSED(&p, "dtype is 4; needs a heed_dtype");
  p = problem(&s), p.layouts = 64;
  REFUSED(&p, "layouts is 64; needs a sum of layouts, at most HEED_ALL_LAYOUTS, which is 63");
  p = problem(&s), p.num_inputs = 3, p.input_shapes = NULL;
  REFUSED(&p, "input_shapes is NULL");
  p = problem(&s), p.plain = &p;
  REFUSED(&p, "plain is only for float16 and bfloat16; set it to NULL");
  p = problem(&s);
  const void* const one[] = {kA, NULL};
  refused(&p, NULL, NULL, "x[0] is NULL", __LINE__);
  refused(&p, one, NULL, "x[1] is NULL", __LINE__);
  const int64_t negative[] = {2, -3}, many[] = {1, 1, 1, 1, 1, 1, 1, 1, 1},
                huge[] = {1LL << 40, 1LL << 40};
  heed_shape shapes[] = {{2, negative}, {2, kMatrix}};
  p.input_shapes = shapes;
  REFUSED(&p, "input 0 has the shape [2, -3]; needs sizes of at least 0");
  shapes[0] = (heed_shape){9, many};
  REFUSED(&p, "input 0 has 9 axes, at most 8");
  shapes[0] = (heed_shape){2, huge};
  REFUSED(&p, "at most 2^40 elements");
  shapes[0] = (heed_shape){2, NULL};
  REFUSED(&p, "input 0: sizes is NULL");
  CHECK(heed_report_verdict(NULL) == HEED_NOT_CHECKED);
  CHECK(strcmp(heed_report_text(NULL), "") == 0 && strcmp(heed_report_json(NULL), "") == 0);
  heed_report_free(NULL);
}

static void test_options(void) {
  struct state s = {.bug = kRight};
  const heed_problem p = problem(&s);
  heed_check_options options = HEED_CHECK_OPTIONS;
  options.max_entries = 0;
  refused(&p, kX, &options, "max_entries must be at least 1, got 0", __LINE__);
  options.max_entries = 1, options.forward_error = -1;
  refused(&p, kX, &options, "forward_error must be finite and at least 0, got -1", __LINE__);
  options.size = 31;
  refused(&p, kX, &options, "options has size 31, needs 32; initialize it with HEED_CHECK_OPTIONS",
          __LINE__);
  options = (heed_check_options)HEED_CHECK_OPTIONS, options.seed = 7;
  heed_report* report = NULL;
  CHECK(heed_check(&p, kX, &options, &report) == HEED_OK);
  CHECK(json_has(report, "\"seed\":7"));
  heed_report_free(report);
}

static void test_failing_callbacks(void) {
  struct state s = {.bug = kRight};
  const heed_problem p = problem(&s);
  CHECK(heed_check(&p, kX, NULL, NULL) == HEED_OK); /* nobody wants the report */
  const int calls = s.forwards + s.all_calls;
  CHECK(calls > 50);
  for (int at = 1; at <= calls + 1; ++at) {
    const int code = at <= calls ? 42 : -1;
    s = (struct state){.fails_at = at <= calls ? at : 3, .code = code};
    heed_report* report = NULL;
    CHECK(heed_check(&p, kX, NULL, &report) == (code > 0 ? code : HEED_FAILED));
    CHECK(s.forwards + s.all_calls == s.fails_at);
    CHECK(heed_report_verdict(report) == HEED_NOT_CHECKED);
    CHECK(has(report, code > 0 ? "ward returned 42, which ended the check"
                               : "returned -1; it must return 0, or a positive number"));
    heed_report_free(report);
  }
}

static int check_often(void* wrong) {
  int right = 1;
  for (int i = 0; i < 20; ++i) {
    struct state s = {.bug = wrong ? kReadsForward : kRight};
    const heed_problem p = problem(&s);
    heed_report* report = NULL;
    right = right && heed_check(&p, kX, NULL, &report) == HEED_OK;
    right = right && heed_report_verdict(report) == (wrong ? HEED_WRONG : HEED_RIGHT);
    heed_report_free(report);
  }
  return right;
}

static void test_threads(void) {
  thrd_t threads[8];
  for (int i = 0; i < 8; ++i)
    CHECK(thrd_create(&threads[i], check_often, i % 2 ? &failures : NULL) == thrd_success);
  for (int i = 0; i < 8; ++i) {
    int right = 0;
    thrd_join(threads[i], &right);
    CHECK(right);
  }
}

/* y [3] = x^3, and its derivatives, with these mistakes. */
enum { kThree = 3 };
struct cube_state {
  int detached; /* 1: backward2 has no derivative with respect to x */
  int code;     /* the code that backward2 returns */
  double jvp;   /* factor of jvp */
};

static int cube_forward(void* user, const heed_array* inputs, const heed_array* outputs) {
  (void)user;
  const double* x = inputs[0].data;
  for (int k = 0; k < kThree; ++k) ((double*)outputs[0].data)[k] = x[k] * x[k] * x[k];
  return 0;
}

static int cube_backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                         const heed_array* grad_inputs) {
  (void)user;
  const double *x = inputs[0].data, *dy = grad_outputs[0].data;
  for (int k = 0; k < kThree; ++k) ((double*)grad_inputs[0].data)[k] = 3 * x[k] * x[k] * dy[k];
  return 0;
}

static int backward2(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                     const heed_array* tangents, const heed_array* grad_inputs,
                     const heed_array* grad_grad_outputs) {
  const struct cube_state* s = user;
  const double *x = inputs[0].data, *dy = grad_outputs[0].data, *t = tangents[0].data;
  for (int k = 0; k < kThree; ++k) {
    ((double*)grad_inputs[0].data)[k] = s->detached ? 0 : 6 * x[k] * dy[k] * t[k];
    ((double*)grad_grad_outputs[0].data)[k] = 3 * x[k] * x[k] * t[k];
  }
  return s->code;
}

static int jvp(void* user, const heed_array* inputs, const heed_array* tangents,
               const heed_array* output_tangents) {
  const struct cube_state* s = user;
  const int code = cube_backward(user, inputs, tangents, output_tangents);
  for (int k = 0; k < kThree; ++k) ((double*)output_tangents[0].data)[k] *= s->jvp;
  return code;
}

/* y = 2 sin(x) in bfloat16, whose numbers are the upper halves of floats. The gradient is
 * multiplied by the factor of jvp. */
static float to_float(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static uint16_t to_half(double value) {
  const float x = (float)value;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
static int half_forward(void* user, const heed_array* inputs, const heed_array* outputs) {
  (void)user;
  for (int k = 0; k < kThree; ++k)
    ((uint16_t*)outputs[0].data)[k] = to_half(2 * sin(to_float(((uint16_t*)inputs[0].data)[k])));
  return 0;
}
static int half_backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                         const heed_array* grad_inputs) {
  const struct cube_state* s = user;
  for (int k = 0; k < kThree; ++k) {
    const double x = to_float(((uint16_t*)inputs[0].data)[k]);
    const double dy = to_float(((uint16_t*)grad_outputs[0].data)[k]);
    ((uint16_t*)grad_inputs[0].data)[k] = to_half(s->jvp * 2 * cos(x) * dy);
  }
  return 0;
}
static int sine(void* user, const heed_array* inputs, const heed_array* outputs) {
  (void)user;
  for (int k = 0; k < kThree; ++k)
    ((double*)outputs[0].data)[k] = 2 * sin(((double*)inputs[0].data)[k]);
  return 0;
}
static int sine_backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                         const heed_array* grad_inputs) {
  (void)user;
  for (int k = 0; k < kThree; ++k)
    ((double*)grad_inputs[0].data)[k] =
        2 * cos(((double*)inputs[0].data)[k]) * ((double*)grad_outputs[0].data)[k];
  return 0;
}

static const int64_t kSizes[] = {kThree};
static const heed_shape kShape[] = {{1, kSizes}};

static heed_problem cube_problem(struct cube_state* s, int dtype) {
  const int is_half = dtype == HEED_BFLOAT16;
  return (heed_problem){.size = sizeof(heed_problem),
                        .dtype = dtype,
                        .num_inputs = 1,
                        .input_shapes = kShape,
                        .num_outputs = 1,
                        .output_shapes = kShape,
                        .user = s,
                        .forward = is_half ? half_forward : cube_forward,
                        .backward = is_half ? half_backward : cube_backward};
}

static void test_order_2_and_jvp(void) {
  const double values[] = {0.5, -1.25, 2};
  const void* const x[] = {values};
  struct cube_state s = {.jvp = 1};
  heed_problem p = cube_problem(&s, HEED_FLOAT64);
  EXPECT_JSON(&p, x, HEED_RIGHT, "order 1", "\"order\":1");
  p.backward2 = backward2, p.jvp = jvp;
  EXPECT_JSON(&p, x, HEED_RIGHT, "digits agree with values of jvp in 3 of 3 entries; ",
              "\"order\":2");
  EXPECT_JSON(&p, x, HEED_RIGHT,
              "digits agree with the transposed entries (symmetry) in 6 of 6 entries; ", "");
  s.detached = 1;
  EXPECT_JSON(&p, x, HEED_WRONG, "gradients of the outputs): input 0 at [",
              "backward2 returns 0, ");
  s.code = HEED_NO_DERIVATIVE;
  EXPECT_JSON(&p, x, HEED_VACUOUS, "vacuous: order 2: no second derivative; ", "");
  s.code = 7;
  expect(&p, x, 7, HEED_NOT_CHECKED, "backward2 returned 7, which ended the check", "", __LINE__);
  s.jvp = 1.5;
  EXPECT_JSON(&p, x, HEED_WRONG, ", values of jvp give ", "\"verdict\":\"wrong\"");
  p.backward = NULL, p.backward2 = NULL;
  EXPECT_JSON(&p, x, HEED_WRONG, ": jvp returns ", "\"verdict\":\"wrong\"");
  s.jvp = 1;
  EXPECT_JSON(&p, x, HEED_RIGHT, "in 3 of 3 entries; 3 of 3 wrong versions", "\"checked\":3,");
}

static void test_bfloat16(void) {
  const uint16_t halves[] = {to_half(0.5), to_half(-1.25), to_half(2)};
  const void* const x[] = {halves};
  struct cube_state s = {.jvp = 1};
  heed_problem p = cube_problem(&s, HEED_BFLOAT16);
  EXPECT_JSON(&p, x, HEED_VACUOUS, "a verdict needs a reference: the same function in float64",
              "\"verdict\":\"vacuous\"");
  heed_problem reference = cube_problem(&s, HEED_FLOAT64);
  p.reference = &reference;
  reference.forward = sine;
  EXPECT_JSON(&p, x, HEED_VACUOUS, "the reference: input 0 at [", "\"low_precision\":null");
  reference.backward = sine_backward;
  EXPECT_JSON(&p, x, HEED_RIGHT, " (right up to 3), factor ", "\"low_precision\":{\"R\":0.");
  EXPECT_JSON(&p, x, HEED_RIGHT, "layouts: not applicable, repeated 4 of 4; ", "\"inputs\":64}");
  const heed_problem plain = p;
  p.plain = &plain;
  EXPECT_JSON(&p, x, HEED_RIGHT, " (right up to 3), factor ", "\"low_precision\":{\"R\":0.");
  p.plain = NULL, s.jvp = 1.003;
  EXPECT_JSON(&p, x, HEED_WRONG, "the gradient of input 0 is 1.00", "\"verdict\":\"wrong\"");
  reference.num_outputs = 0;
  expect(&p, x, HEED_INVALID, HEED_NOT_CHECKED, "reference has other numbers or shapes of inputs",
         "", __LINE__);
  reference = cube_problem(&s, HEED_BFLOAT16);
  expect(&p, x, HEED_INVALID, HEED_NOT_CHECKED,
         "reference needs forward, backward and the dtype 0, has the dtype 3", "", __LINE__);
}

int main(void) {
  test_right();
  test_wrong();
  test_json();
  test_invalid_problems();
  test_options();
  test_failing_callbacks();
  test_threads();
  test_order_2_and_jvp();
  test_bfloat16();
  if (failures == 0) puts("heed_check_test: all passed");
  return failures != 0;
}
