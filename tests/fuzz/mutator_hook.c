// libFuzzer looks for LLVMFuzzerCustomMutator when it is loaded, long before there is a Python to define it.
// This is preloaded with it and hands on to whatever Python has set.
#include <stddef.h>
#include <stdint.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));

typedef size_t (*mutator)(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
static mutator chosen;

void set_mutator(mutator function) { chosen = function; }

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    return chosen ? chosen(data, size, max_size, seed) : LLVMFuzzerMutate(data, size, max_size);
}
