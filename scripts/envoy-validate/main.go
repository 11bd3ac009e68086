// envoy-validate FILE: whether a configuration of Envoy is one by Envoy's own API: names, types, and the rules of fields, of
// nested extensions as well. What Envoy itself finds besides, as a cluster that is not defined, is checked by the tests.
package main

import (
	"fmt"
	"os"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

// validate checks a message, and whatever is packed in it.
func validate(message proto.Message) error {
	if checked, ok := message.(interface{ ValidateAll() error }); ok {
		if err := checked.ValidateAll(); err != nil {
			return err
		}
	}
	return protorange.Range(message.ProtoReflect(), func(values protopath.Values) error {
		at, ok := values.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		packed, ok := at.Interface().(*anypb.Any)
		if !ok {
			return nil
		}
		inner, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		if err := validate(inner); err != nil {
			return err
		}
		return protorange.Break // of the packed bytes there is nothing more to see
	})
}

func run(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	json, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	config := &bootstrap.Bootstrap{}
	if err := protojson.Unmarshal(json, config); err != nil {
		return err
	}
	return validate(config)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: envoy-validate FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
