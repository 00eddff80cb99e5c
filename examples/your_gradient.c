/* Checks a wrong backward pass of y = softmax(x), written by hand in C. */
#include <math.h>
#include <stdio.h>

#include "autograd/check/heed_check.h"

enum { kSize = 3 };

/* The only input is x [3], the only output is y [3]. `user` is not used. */
static int forward(void* user, const heed_array* inputs, const heed_array* outputs) {
  (void)user;
  const double* x = inputs[0].data;
  double* y = outputs[0].data;
  double sum = 0;
  for (int i = 0; i < kSize; ++i) {
    y[i] = exp(x[i]);
    sum += y[i];
  }
  for (int i = 0; i < kSize; ++i) y[i] /= sum;
  return 0; /* a positive number ends the check, for example after an error */
}

/* Writes dL/dx. The right result is y[i] * (dy[i] - dot), where dot is the sum of y[k] * dy[k].
 * The mistake: dot is missing. */
static int backward(void* user, const heed_array* inputs, const heed_array* grad_outputs,
                    const heed_array* grad_inputs) {
  const double* dy = grad_outputs[0].data;
  double* dx = grad_inputs[0].data;
  double y[kSize];
  const heed_array outputs[] = {{y, NULL}};
  forward(user, inputs, outputs);
  for (int i = 0; i < kSize; ++i) dx[i] = y[i] * dy[i];
  return 0;
}

int main(void) {
  const double x[kSize] = {0.5, -1.2, 0.3};
  const void* inputs[] = {x};
  const int64_t sizes[] = {kSize};
  const heed_shape shape[] = {{1, sizes}};
  const heed_problem softmax = {.size = sizeof softmax,
                                .dtype = HEED_FLOAT64,
                                .num_inputs = 1,
                                .input_shapes = shape,
                                .num_outputs = 1,
                                .output_shapes = shape,
                                .forward = forward,
                                .backward = backward};
  heed_report* report = NULL;
  const int status = heed_check(&softmax, inputs, NULL, &report);
  puts(heed_report_text(report));
  const heed_verdict verdict = heed_report_verdict(report);
  heed_report_free(report);
  return status == HEED_OK && verdict == HEED_WRONG ? 0 : 1;
}
