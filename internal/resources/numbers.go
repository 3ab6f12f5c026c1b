// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// numberRange is a range of numbers, and the property that sets it.
type numberRange struct {
	property string
	lo, hi   int32
}

// The ranges that numbers are taken from. Ports end below the range from which Linux takes
// the ports of outgoing connections (32768); that of LINSTOR, 1,000 ports, is used up by
// 1,000 resources on a node.
func minorRange(settings model.Props) numberRange {
	return rangeOf(settings, numberRange{"MinorNrAutoRange", 1000, 49999})
}

func portRange(settings model.Props) numberRange {
	return rangeOf(settings, numberRange{"TcpPortAutoRange", 7000, 31999})
}

// nodeIDs is fixed: DRBD 9 numbers the replicas of a resource from 0 to 31 (DRBD manual).
const highestNodeID int32 = 31

// rangeOf reads "7000-7999"; properties are checked when they are set, so what does not
// parse is not there.
func rangeOf(settings model.Props, r numberRange) numberRange {
	v, ok := settings.Get(r.property)
	if !ok {
		return r
	}
	a, b, _ := strings.Cut(v, "-")
	lo, err1 := strconv.ParseInt(strings.TrimSpace(a), 10, 32)
	hi, err2 := strconv.ParseInt(strings.TrimSpace(b), 10, 32)
	if err1 != nil || err2 != nil || lo > hi {
		return r
	}
	return numberRange{r.property, int32(lo), int32(hi)}
}

func (r numberRange) exhausted(object errs.Object, attr errs.Attr, what string) error {
	return errs.New(errs.Exhausted, object, "there is no free %s", what).About(attr).
		Because("all %d of the range %d-%d are used", r.hi-r.lo+1, r.lo, r.hi).
		Fix("widen the range with the controller property %s, or delete what is not needed", r.property)
}

// freeMinor returns the lowest minor that no volume has.
func freeMinor(tx *store.Tx, settings model.Props) (int32, error) {
	r := minorRange(settings)
	n, ok := schema.Minors.Free(tx, r.lo, r.hi)
	if !ok {
		return 0, r.exhausted(errs.VolumeDefinition, errs.Minor, "minor number")
	}
	return n, nil
}

// freePort returns the lowest TCP port that no replica on the node has.
func freePort(tx *store.Tx, settings model.Props, node model.NodeKey) (int32, error) {
	r := portRange(settings)
	p, ok := schema.Ports.Free(tx, schema.NodePort{Node: node, Port: r.lo}, schema.NodePort{Node: node, Port: r.hi})
	if !ok {
		return 0, r.exhausted(errs.Resource, errs.Port, "TCP port on node "+string(node))
	}
	return p.Port, nil
}

// freeNodeID returns the lowest number that no replica of the definition has.
func freeNodeID(tx *store.Tx, d model.DefinitionKey) (int32, error) {
	n, ok := schema.NodeIDs.Free(tx, schema.ReplicaNumber{Definition: d}, schema.ReplicaNumber{Definition: d, NodeID: highestNodeID})
	if !ok {
		return 0, errs.New(errs.Exhausted, errs.Resource, "resource %s has no free node id", d).About(errs.NodeID).
			Because("it has %d replicas, the most that DRBD can have", highestNodeID+1).Fix("delete a replica first")
	}
	return n.NodeID, nil
}
