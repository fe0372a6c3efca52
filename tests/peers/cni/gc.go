// Command gc garbage-collects a CNI network, keeping the attachments that it is told of: cnitool cannot name any.
//
//	gc CONFLIST PLUGINS [CONTAINER/IFNAME ...]
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

func main() {
	if err := collect(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func collect(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: gc CONFLIST PLUGINS [CONTAINER/IFNAME ...]")
	}
	list, err := libcni.ConfListFromFile(args[0])
	if err != nil {
		return err
	}
	valid := []types.GCAttachment{}
	for _, name := range args[2:] {
		container, ifname, found := strings.Cut(name, "/")
		if !found {
			return fmt.Errorf("%q is not CONTAINER/IFNAME", name)
		}
		valid = append(valid, types.GCAttachment{ContainerID: container, IfName: ifname})
	}
	// With an empty cache libcni detaches nothing by itself: what goes, the plugin removed.
	cache, err := os.MkdirTemp("", "gc")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	cni := libcni.NewCNIConfigWithCacheDir(filepath.SplitList(args[1]), cache, nil)
	return cni.GCNetworkList(context.Background(), list, &libcni.GCArgs{ValidAttachments: valid})
}
