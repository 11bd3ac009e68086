// The command prints the stack of the bug that is named, as recovered.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	"shop.example/shop/cart"
)

type server struct{ depth int }

func (s *server) serve(next func()) { s.recovered(next) }

func (s *server) recovered(next func()) {
	defer func() {
		if r := recover(); r != nil {
			kind, text := fmt.Sprintf("%T", r), fmt.Sprint(r)
			fmt.Printf("---- %s | %s\n%s", kind, text, debug.Stack())
		}
	}()
	next()
}

func recorded(err error) {
	fmt.Printf("---- %T | %s\n%s", err, err, debug.Stack())
}

func checkout(v string) {
	if _, err := strconv.Atoi(v); err != nil {
		recorded(err)
	}
}

func refund(v string) {
	if _, err := strconv.Atoi(v); err != nil {
		recorded(err)
	}
}

func bug(name, v string) func() {
	n, _ := strconv.Atoi(v)
	c := &cart.Cart{Items: map[string]*cart.Item{}}
	switch name {
	case "price":
		return func() { c.Total([]string{v}) }
	case "invoice":
		return func() { cart.EncodeInvoice(n) }
	case "tax":
		return func() { cart.EncodeTax(n) }
	case "generic":
		return func() { cart.At([]string{"a"}, n) }
	case "generic_int":
		return func() { cart.At([]int{1}, n) }
	case "closure_price":
		return func() { cart.Each([]string{v}, func(sku string) { c.Price(sku) }) }
	case "closure_error":
		return func() { cart.Each([]string{v}, func(sku string) { panic(errors.New("no stock of " + sku)) }) }
	case "deep":
		return func() { cart.Even(n) }
	case "checkout":
		return func() { checkout(v) }
	case "refund":
		return func() { refund(v) }
	}
	return nil
}

func main() {
	s := &server{}
	done := make(chan bool)
	if len(os.Args) > 3 {
		go func() { s.serve(bug(os.Args[1], os.Args[2])); done <- true }()
		<-done
		return
	}
	s.serve(bug(os.Args[1], os.Args[2]))
}
