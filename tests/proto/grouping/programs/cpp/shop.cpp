// Bugs of a shop: prints the backtrace as it was when the exception was made.
#include <boost/stacktrace.hpp>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
#include <algorithm>

struct Traced : std::runtime_error {
  boost::stacktrace::stacktrace trace;
  explicit Traced(const std::string& text) : std::runtime_error(text) {}
};

namespace shop {
struct Cart {
  std::map<std::string, int> prices;
  int price(const std::string& sku) const;
  int total(const std::vector<std::string>& skus) const;
};

__attribute__((noinline)) int Cart::price(const std::string& sku) const {
  if (!prices.count(sku)) throw Traced("no price of " + sku);
  return prices.at(sku);
}

__attribute__((noinline)) int Cart::total(const std::vector<std::string>& skus) const {
  int sum = 0;
  std::for_each(skus.begin(), skus.end(), [&](const std::string& sku) { sum += price(sku); });
  return sum;
}

__attribute__((noinline)) int charge(const std::string& card) { throw Traced("card " + card + " was declined"); }
__attribute__((noinline)) int send_mail(const std::string& to) { throw Traced("mail to " + to + " bounced"); }

template <class T>
__attribute__((noinline)) T first(const std::vector<T>& items) {
  if (items.empty()) throw Traced("no items");
  return items[0];
}

__attribute__((noinline)) int deeper(int n) { return n == 0 ? throw Traced("too deep") : deeper(n - 1) + 1; }
}  // namespace shop

int main(int, char** arguments) {
  const std::string name = arguments[1], value = arguments[2];
  try {
    if (name == "price") return shop::Cart().total({value});
    if (name == "charge") return shop::charge(value);
    if (name == "send") return shop::send_mail(value);
    if (name == "first") return shop::first(std::vector<int>());
    if (name == "deeper") return shop::deeper(std::stoi(value));
  } catch (const Traced& error) {
    std::cout << "---- Traced | " << error.what() << "\n" << error.trace;
  }
}
