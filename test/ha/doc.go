// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package ha tests whole controllers, as processes, on both engines, while they are killed, paused and cut off: clients over the REST
// API never see a history that one controller that never fails could not have shown, what was acknowledged stays, and another
// controller answers soon. The variables HOLDFAST_SOAK (a time) and
// HOLDFAST_KILLS (a number) make the tests go on for longer; `make soak` sets them.
package ha
