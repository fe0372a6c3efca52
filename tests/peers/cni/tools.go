//go:build tools

// Package main pins the programs of libcni that the script builds.
package main

import _ "github.com/containernetworking/cni/cnitool"
