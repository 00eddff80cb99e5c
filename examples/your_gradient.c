/* Checks a wrong backward pass of y = softmax(x), written by hand in C. */
#include <math.h>
#include <stdio.h>

#include "autograd/check/heed_check.h"

enum { kSize = 3 };

/* The only input is x [3], the only output is y [3]. `user` is not used. */
static int forward(void* user, const void* const* inputs, void* const* outputs) {
  (void)user;
  const double* x = inputs[0];
  double *y = outputs[0], sum = 0;
  for (int i = 0; i < kSize; ++i) sum += y[i] = exp(x[i]);
  for (int i = 0; i < kSize; ++i) y[i] /= sum;
  return 0; /* a positive number ends the check, for example after an error */
}

/* Writes dL/dx. The mistake: it must be y[i] * (dy[i] - dot), where dot is the sum of all y[k] *
 * dy[k]. */
static int backward(void* user, const void* const* inputs, const void* const* grad_outputs,
                    void* const* grad_inputs) {
  const double* dy = grad_outputs[0];
  double *dx = grad_inputs[0], y[kSize];
  void* outputs[] = {y};
  forward(user, inputs, outputs);
  for (int i = 0; i < kSize; ++i) dx[i] = y[i] * dy[i];
  return 0;
}

int main(void) {
  const double x[kSize] = {0.5, -1.2, 0.3};
  const void* inputs[] = {x};
  const int64_t sizes[] = {kSize};
  const heed_shape shape[] = {{1, sizes}};
  const heed_function softmax = {HEED_FLOAT64, 1, shape, 1, shape, forward, backward, NULL};
  heed_report* report = NULL;
  const int status = heed_check_vjp(&softmax, inputs, NULL, &report);
  puts(heed_report_text(report));
  const heed_verdict verdict = heed_report_verdict(report);
  heed_report_free(report);
  return status == HEED_OK && verdict == HEED_WRONG ? 0 : 1;
}
