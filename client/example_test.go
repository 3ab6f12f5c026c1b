// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-storage/holdfast/client"
)

func ExampleClient_Spawn() {
	// A controller with too few nodes.
	controller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `[{"ret_code":-4611686018407201820,"message":"Not enough nodes: 1 of 2"}]`)
	}))
	defer controller.Close()

	c, err := client.New([]string{controller.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Spawn(context.Background(), "ssd", client.ResourceGroupSpawn{
		ResourceDefinitionName: "vm-100-disk-1",
		VolumeSizes:            []client.SizeKiB{client.RoundUp(10 << 30)},
	})
	if client.Is(err, client.FailNotEnoughNodes) {
		fmt.Println("add a node first:", err)
	}
	// Output: add a node first: Not enough nodes: 1 of 2
}
