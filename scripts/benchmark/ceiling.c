// Fused multiply-adds per second of one thread: sixteen independent chains, as wide as the compiler's target allows.
#include <stddef.h>

typedef float wide __attribute__((vector_size(64)));

float fma_chains(size_t n) {
    wide x[16], a = {0}, b = {0};
    for (int k = 0; k < 16; k++) { x[k] = a + (float)k; a[k] = 1.0001f; b[k] = 1e-6f; }
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 16; k++) x[k] = x[k] * a + b;
    float sum = 0;
    for (int k = 0; k < 16; k++) sum += x[k][k];
    return sum;
}
