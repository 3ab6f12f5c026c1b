// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package local

import "net/http"

// Handler is the handler of a server.
func Handler(s *Server) http.Handler { return s.handler() }
