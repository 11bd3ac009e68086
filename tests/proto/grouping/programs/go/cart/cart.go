// Package cart has bugs of a shop.
package cart

import (
	"encoding/json"
	"fmt"
)

type Item struct{ Price int }

type Cart struct{ Items map[string]*Item }

func (c *Cart) Price(sku string) int { return c.Items[sku].Price }

func (c *Cart) Total(skus []string) int {
	sum := 0
	for _, sku := range skus {
		sum += c.Price(sku)
	}
	return sum
}

type Invoice struct{ Number int }

func (Invoice) MarshalJSON() ([]byte, error) { panic("no number") }

type Tax struct{ Rate int }

func (Tax) MarshalJSON() ([]byte, error) { panic("no rate") }

func EncodeInvoice(n int) ([]byte, error) { return json.Marshal(map[string]any{"invoice": Invoice{n}}) }

func EncodeTax(n int) ([]byte, error) { return json.Marshal(map[string]any{"tax": Tax{n}}) }

func At[T any](items []T, n int) T { return items[n] }

func Each(skus []string, visit func(string)) {
	for _, sku := range skus {
		visit(sku)
	}
}

func Even(n int) int {
	if n == 0 {
		panic(fmt.Sprintf("too deep at %p", &n))
	}
	return Odd(n-1) + 1
}

func Odd(n int) int {
	if n == 0 {
		panic(fmt.Sprintf("too deep at %p", &n))
	}
	return Even(n-1) + 1
}
