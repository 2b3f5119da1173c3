package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMatrix_Spare_LeavesADetectorOfEachEdit(t *testing.T) {
	m := matrix{{"a", "b"}, {"b", "c"}, {"c"}, nil}
	assert.Equal(t, []string{"b", "none"}, m.spare(map[string]int{"a": 5, "b": 9, "c": 7, "none": 1}))
}

func TestFailed_Events_NameTheTestsAndAPanic(t *testing.T) {
	const events = `{"Action":"run","Test":"TestA"}
{"Action":"fail","Test":"TestA/sub"}
{"Action":"fail","Test":"TestA"}
{"Action":"pass","Test":"TestB"}
{"Action":"output","Test":"TestC","Output":"panic: no answer\n"}
{"Action":"fail"}
`
	tests, ended := failed([]byte(events))
	assert.Equal(t, []string{"TestA", "TestC"}, tests)
	assert.True(t, ended)
}
