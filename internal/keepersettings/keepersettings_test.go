package keepersettings

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A new field of the config needs a row, and is on the debug page then, and with a help in the flags.
func TestEachSettingHasARowThatFollowsItsField(t *testing.T) {
	want := map[string]bool{"Unwrap": true, "Room.Key": true, "Logger": true} // nothing to look at
	var c keepalive.Config
	for setting := range All(&c) {
		name := setting.FieldName()
		require.False(t, want[name], "twice: %s", name)
		want[name] = true
		before := valueOf(t, &c, name)
		change(t, field(reflect.ValueOf(&c).Elem(), name))
		require.NotEqual(t, before, valueOf(t, &c, name), name)
	}
	eachField(reflect.TypeFor[keepalive.Config](), "", func(name string) { require.True(t, want[name], "no row: %s", name) })
}

// valueOf returns the value of the row for a field.
func valueOf(t *testing.T, c *keepalive.Config, name string) any {
	for setting := range All(c) {
		if setting.FieldName() == name {
			return setting.Value.(flag.Getter).Get()
		}
	}
	require.Fail(t, "no row", name)
	return nil
}

// eachField calls f with the path of each field, such as Room.Pressure.Low.
func eachField(in reflect.Type, path string, f func(name string)) {
	for i := range in.NumField() {
		if field := in.Field(i); field.Type.Kind() == reflect.Struct {
			eachField(field.Type, path+field.Name+".", f)
		} else {
			f(path + field.Name)
		}
	}
}

func field(in reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		in = in.FieldByName(name)
	}
	return in
}

// change gives a field another value.
func change(t *testing.T, v reflect.Value) {
	switch {
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanFloat():
		v.SetFloat(v.Float() + 0.5)
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case v.Kind() == reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), nil))
	default:
		require.Fail(t, "a kind without a row", v.Kind())
	}
}
