/* Tests of heed_check() (autograd/check/heed_check.h), compiled as C11: second derivatives, jvp,
 * and functions in float16 and bfloat16. Prints each check that fails, and exits with 1 if there is
 * one.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/check/heed_check.h"

static int failures = 0;

/* y [3] = x^3, and its derivatives, with these mistakes. */
enum { kSize = 3 };
struct state {
  int detached; /* 1: backward2 has no derivative with respect to x */
  int code;     /* the code that backward2 returns */
  double jvp;   /* factor of jvp */
};

static int forward(void* user, const heed_array* inputs, const heed_array* outputs) {
  (void)user;
  const double* x = inputs[0].data;
  for (int k = 0; k < kSize; ++k) ((double*)outputs[0].data)[k] = x[k] * x[k] * x[k];
  return 0;
}

static int backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                    const heed_array* grad_inputs) {
  (void)user;
  const double *x = inputs[0].data, *dy = grad_outputs[0].data;
  for (int k = 0; k < kSize; ++k) ((double*)grad_inputs[0].data)[k] = 3 * x[k] * x[k] * dy[k];
  return 0;
}

static int backward2(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                     const heed_array* tangents, const heed_array* grad_inputs,
                     const heed_array* grad_grad_outputs) {
  const struct state* s = user;
  const double *x = inputs[0].data, *dy = grad_outputs[0].data, *t = tangents[0].data;
  for (int k = 0; k < kSize; ++k) {
    ((double*)grad_inputs[0].data)[k] = s->detached ? 0 : 6 * x[k] * dy[k] * t[k];
    ((double*)grad_grad_outputs[0].data)[k] = 3 * x[k] * x[k] * t[k];
  }
  return s->code;
}

static int jvp(void* user, const heed_array* inputs, const heed_array* tangents,
               const heed_array* output_tangents) {
  const struct state* s = user;
  const int code = backward(user, inputs, tangents, output_tangents);
  for (int k = 0; k < kSize; ++k) ((double*)output_tangents[0].data)[k] *= s->jvp;
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
  for (int k = 0; k < kSize; ++k)
    ((uint16_t*)outputs[0].data)[k] = to_half(2 * sin(to_float(((uint16_t*)inputs[0].data)[k])));
  return 0;
}
static int half_backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                         const heed_array* grad_inputs) {
  const struct state* s = user;
  for (int k = 0; k < kSize; ++k) {
    const double x = to_float(((uint16_t*)inputs[0].data)[k]);
    const double dy = to_float(((uint16_t*)grad_outputs[0].data)[k]);
    ((uint16_t*)grad_inputs[0].data)[k] = to_half(s->jvp * 2 * cos(x) * dy);
  }
  return 0;
}
static int sine(void* user, const heed_array* inputs, const heed_array* outputs) {
  (void)user;
  for (int k = 0; k < kSize; ++k)
    ((double*)outputs[0].data)[k] = 2 * sin(((double*)inputs[0].data)[k]);
  return 0;
}
static int sine_backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                         const heed_array* grad_inputs) {
  (void)user;
  for (int k = 0; k < kSize; ++k)
    ((double*)grad_inputs[0].data)[k] =
        2 * cos(((double*)inputs[0].data)[k]) * ((double*)grad_outputs[0].data)[k];
  return 0;
}

static const int64_t kThree[] = {kSize};
static const heed_shape kShape[] = {{1, kThree}};

static heed_problem problem(struct state* s, int dtype) {
  const int is_half = dtype == HEED_BFLOAT16;
  return (heed_problem){.size = sizeof(heed_problem),
                        .dtype = dtype,
                        .num_inputs = 1,
                        .input_shapes = kShape,
                        .num_outputs = 1,
                        .output_shapes = kShape,
                        .user = s,
                        .forward = is_half ? half_forward : forward,
                        .backward = is_half ? half_backward : backward};
}

/* Checks that heed_check() returns this status and verdict, and that the text and the JSON contain
 * these texts. */
static void expect(const heed_problem* p, int status, heed_verdict verdict, const char* text,
                   const char* json, int line) {
  static const double kX[] = {0.5, -1.25, 2};
  const uint16_t halves[] = {to_half(0.5), to_half(-1.25), to_half(2)};
  const void* const x[] = {p->dtype == HEED_BFLOAT16 ? (const void*)halves : (const void*)kX};
  heed_report* report = NULL;
  const int got = heed_check(p, x, NULL, &report);
  if (got != status || heed_report_verdict(report) != verdict ||
      !strstr(heed_report_text(report), text) || !strstr(heed_report_json(report), json)) {
    printf("heed_derivatives_test.c:%d: failed: status %d\n%s\n%s\n", line, got,
           heed_report_text(report), heed_report_json(report));
    ++failures;
  }
  heed_report_free(report);
}
#define EXPECT(p, verdict, text, json) expect((p), HEED_OK, (verdict), (text), (json), __LINE__)

static void test_order_2_and_jvp(void) {
  struct state s = {.jvp = 1};
  heed_problem p = problem(&s, HEED_FLOAT64);
  EXPECT(&p, HEED_RIGHT, "order 1", "\"order\":1,\"jvp\":null,\"order2\":null,\"symmetry\":null");
  p.backward2 = backward2, p.jvp = jvp;
  EXPECT(&p, HEED_RIGHT, "digits agree with values of jvp in 3 of 3 entries; ",
         "\"jvp\":{\"checked\":3,\"entries\":3,\"worst\":{");
  EXPECT(&p, HEED_RIGHT, "digits agree with the transposed entries (symmetry) in 6 of 6 entries; ",
         "\"order2\":{\"checked\":6,\"entries\":6,\"worst\":{");
  s.detached = 1;
  EXPECT(&p, HEED_WRONG, "gradients of the outputs): input 0 at [", "backward2 returns 0, ");
  s.code = HEED_NO_DERIVATIVE;
  EXPECT(&p, HEED_VACUOUS, "vacuous: order 2: no second derivative; ", "\"order2\":null");
  s.code = 7;
  expect(&p, 7, HEED_NOT_CHECKED, "backward2 returned 7, which ended the check", "", __LINE__);
  s.jvp = 1.5;
  EXPECT(&p, HEED_WRONG, ", values of jvp give ", "\"verdict\":\"wrong\"");
  p.backward = NULL, p.backward2 = NULL;
  EXPECT(&p, HEED_WRONG, ": jvp returns ", "\"verdict\":\"wrong\"");
  s.jvp = 1;
  EXPECT(&p, HEED_RIGHT, "in 3 of 3 entries; 3 of 3 wrong versions", "\"checked\":3,");
}

static void test_bfloat16(void) {
  struct state s = {.jvp = 1};
  heed_problem p = problem(&s, HEED_BFLOAT16);
  EXPECT(&p, HEED_VACUOUS, "a verdict needs a reference: the same function in float64",
         "do not show a wrong gradient");
  heed_problem reference = problem(&s, HEED_FLOAT64);
  p.reference = &reference;
  reference.forward = sine;
  EXPECT(&p, HEED_VACUOUS, "the reference: input 0 at [", "\"low_precision\":null");
  reference.backward = sine_backward;
  EXPECT(&p, HEED_RIGHT, " (right up to 3), factor ", "\"low_precision\":{\"R\":0.");
  EXPECT(&p, HEED_RIGHT, "layouts: not applicable, repeated 4 of 4; ", "\"inputs\":64}");
  const heed_problem plain = p;
  p.plain = &plain;
  EXPECT(&p, HEED_RIGHT, " (right up to 3), factor ", "\"low_precision\":{\"R\":0.");
  p.plain = NULL, s.jvp = 1.003;
  EXPECT(&p, HEED_WRONG, "the gradient of input 0 is 1.00", "\"verdict\":\"wrong\"");
  reference.num_outputs = 0;
  expect(&p, HEED_INVALID, HEED_NOT_CHECKED, "reference has other numbers or shapes of inputs", "",
         __LINE__);
  reference = problem(&s, HEED_BFLOAT16);
  expect(&p, HEED_INVALID, HEED_NOT_CHECKED,
         "reference needs forward, backward and the dtype 0, has the dtype 3", "", __LINE__);
}

int main(void) {
  test_order_2_and_jvp();
  test_bfloat16();
  if (failures == 0) puts("heed_derivatives_test: all passed");
  return failures != 0;
}
