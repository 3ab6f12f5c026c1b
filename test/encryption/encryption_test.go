// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encryption_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

const (
	first  = "correct horse"
	second = "battery staple"
)

func layers(list ...client.LayerType) []client.LayerType { return list }

func sealed() []client.LayerType { return layers(client.LayerLUKS, client.LayerStorage) }

// spawn makes a definition of one volume with a replica.
func (w *world) spawn(name string, stack []client.LayerType) error {
	_, err := w.api.Spawn(w.t.Context(), "DfltRscGrp", client.ResourceGroupSpawn{
		ResourceDefinitionName: name, VolumeSizes: []client.SizeKiB{64 << 10},
		SelectFilter: &client.AutoSelectFilter{PlaceCount: new(client.Int32(1)), LayerStack: stack},
	})
	return err
}

// refused fails the test unless an error has a code, and says what to do.
func (w *world) refused(err error, code client.RetCode, fix string) {
	w.t.Helper()
	if !client.Is(err, code) {
		w.t.Errorf("got %v, want %s", err, code)
	} else if !strings.Contains(err.Error(), fix) {
		w.t.Errorf("it is not said that one should %q: %v", fix, err)
	}
}

// replica returns the one replica of a definition.
func (w *world) replica(name string) client.ResourceWithVolumes {
	w.t.Helper()
	list := must(w.api.AllResources(w.t.Context(), client.ResourceFilter{Resources: []string{name}}))(w.t)
	if len(list) != 1 {
		w.t.Fatalf("%s has %d replicas", name, len(list))
	}
	return list[0]
}

// open tells whether the volume of a definition is open, as the API shows it.
func (w *world) open(name string) bool {
	w.t.Helper()
	v := w.replica(name).Volumes[0]
	return v.LayerDataList[0].Type == client.LayerLUKS && strings.Contains(oneLine(w.t, v.LayerDataList[0]), `"opened":true`)
}

// says returns what the API says of the volume of a definition.
func (w *world) says(name string) string {
	w.t.Helper()
	return oneLine(w.t, w.replica(name).Volumes[0].Reports)
}

// state waits until the replica of a definition has a phase.
func (w *world) state(name string, node model.NodeKey, want observed.Phase) {
	w.t.Helper()
	id := model.ResourceID{Definition: model.DefinitionName(name).Key(), Node: node}
	w.Until(func() bool { st, ok := w.Observed.Resource(id); return ok && st.Current && st.Phase == want })
}

func TestWithoutAPassphraseNothingIsEncrypted(t *testing.T) {
	w := start(t, 1)
	w.refused(w.spawn("vol", sealed()), client.FailNotFoundCryptKey, "create one")
	if all := must(w.api.ResourceDefinitions(t.Context(), client.ResourceDefinitionFilter{}))(t); len(all) != 0 {
		t.Errorf("left behind: %v", all)
	}
	// The definition may exist before; it is its first replica that needs a key.
	ok(t)(w.api.CreateResourceDefinition(t.Context(), client.ResourceDefinitionCreate{
		ResourceDefinition: client.NewResourceDefinition{Name: "later", LayerData: []wire.LayerRequest{{Type: client.LayerLUKS}, {Type: client.LayerStorage}}},
	}))
	ok(t)(w.api.CreateVolumeDefinition(t.Context(), "later", client.VolumeDefinitionCreate{VolumeDefinition: client.NewVolumeDefinition{Size: new(client.SizeKiB(64 << 10))}}))
	place := client.AutoPlaceRequest{SelectFilter: &client.AutoSelectFilter{PlaceCount: new(client.Int32(1))}}
	_, err := w.api.AutoPlace(t.Context(), "later", place)
	w.refused(err, client.FailNotFoundCryptKey, "create one")
	ok(t)(w.api.CreatePassphrase(t.Context(), first))
	ok(t)(w.api.AutoPlace(t.Context(), "later", place))
	if !w.open("later") {
		t.Error("the volume is not open")
	}
	// A further volume has a key of its own.
	ok(t)(w.api.CreateVolumeDefinition(t.Context(), "later", client.VolumeDefinitionCreate{VolumeDefinition: client.NewVolumeDefinition{Size: new(client.SizeKiB(64 << 10))}}))
	if n := len(w.keys()); n != 2 {
		t.Errorf("two volumes have %d keys", n)
	}
}

// What is made of an encrypted volume opens with the key of its source, also when the source is gone.
func TestCopiesHaveTheKeyOfTheirSource(t *testing.T) {
	w := start(t, 1)
	ctx := t.Context()
	ok(t)(w.api.CreatePassphrase(ctx, first))
	must(0, w.spawn("db", sealed()))(t)
	ok(t)(w.api.CreateSnapshot(ctx, "db", client.SnapshotCreate{Name: "s1"}))
	must(w.api.Clone(ctx, "db", client.CloneRequest{Name: "clone"}))(t)
	w.Until(func() bool {
		st, err := w.api.CloneStatus(ctx, "db", "clone")
		return err == nil && st.Status == client.CloneComplete
	})
	if !w.open("clone") {
		t.Error("the clone is not open")
	}
	ok(t)(w.api.RollBack(ctx, "db", "s1"))
	// The volume and its definition go; the snapshot keeps the key.
	ok(t)(w.api.DeleteResource(ctx, "db", "n1", false))
	ok(t)(w.api.DeleteVolumeDefinition(ctx, "db", 0))
	ok(t)(w.api.ModifyPassphrase(ctx, first, second))
	ok(t)(w.api.CreateResourceDefinition(ctx, client.ResourceDefinitionCreate{ResourceDefinition: client.NewResourceDefinition{Name: "back"}}))
	ok(t)(w.api.RestoreVolumeDefinitions(ctx, "db", "s1", client.SnapshotRestore{ToResource: "back"}))
	ok(t)(w.api.RestoreResource(ctx, "db", "s1", client.SnapshotRestore{ToResource: "back"}))
	if !w.open("back") {
		t.Error("what was restored is not open")
	}
	// A volume definition that was made by hand gets it too.
	ok(t)(w.api.CreateResourceDefinition(ctx, client.ResourceDefinitionCreate{ResourceDefinition: client.NewResourceDefinition{Name: "by-hand"}}))
	ok(t)(w.api.CreateVolumeDefinition(ctx, "by-hand", client.VolumeDefinitionCreate{VolumeDefinition: client.NewVolumeDefinition{Size: new(client.SizeKiB(128 << 10))}}))
	ok(t)(w.api.RestoreResource(ctx, "db", "s1", client.SnapshotRestore{ToResource: "by-hand"}))
	if !w.open("by-hand") {
		t.Error("what was restored to volumes made by hand is not open")
	}
	if n := len(w.keys()); n != 1 {
		t.Errorf("one volume and its copies have %d keys", n)
	}
	// A volume that was made anew in its place has another key, and is not rolled back to the old one.
	ok(t)(w.api.CreateVolumeDefinition(ctx, "db", client.VolumeDefinitionCreate{VolumeDefinition: client.NewVolumeDefinition{Size: new(client.SizeKiB(64 << 10))}}))
	ok(t)(w.api.AutoPlace(ctx, "db", client.AutoPlaceRequest{SelectFilter: &client.AutoSelectFilter{PlaceCount: new(client.Int32(1))}}))
	_, err := w.api.RollBack(ctx, "db", "s1")
	w.refused(err, wire.FailInvldLayerStack, "restore the snapshot")
	w.Check()
	w.noSecretWasTold()
}

// A controller that was started anew is locked: what is open stays open, what is shut stays shut, all
// else goes on, and the passphrase that is valid by then mends it.
func TestAControllerThatWasStartedAnewIsLocked(t *testing.T) {
	w := start(t, 2)
	ctx := t.Context()
	ok(t)(w.api.CreatePassphrase(ctx, first))
	must(0, w.spawn("open", sealed()))(t)
	must(0, w.spawn("shut", sealed()))(t)
	must(0, w.spawn("plain", layers(client.LayerStorage)))(t)
	stays, reboots := w.replica("open").NodeName, w.replica("shut").NodeName
	if stays == reboots {
		t.Fatal("both replicas lie on one node")
	}
	ok(t)(w.api.ModifyPassphrase(ctx, first, second))

	w = w.again(reboots)
	if status := must(w.api.PassphraseStatus(ctx))(t); status != "locked" {
		t.Errorf("the status is %s", status)
	}
	w.state("open", model.NodeName(stays).Key(), observed.Ready)
	w.state("shut", model.NodeName(reboots).Key(), observed.Failed)
	if !w.open("open") || w.open("shut") {
		t.Errorf("open: %v, shut: %v", w.open("open"), w.open("shut"))
	}
	if text := w.says("shut"); !strings.Contains(text, "enter the passphrase") {
		t.Errorf("the API does not say what to do: %s", text)
	}
	for _, n := range must(w.api.Nodes(ctx, client.NodeFilter{}))(t) {
		if n.ConnectionStatus != client.ConnOnline {
			t.Errorf("node %s is %s", n.Name, n.ConnectionStatus)
		}
	}
	must(0, w.spawn("plain-too", layers(client.LayerStorage)))(t)
	w.refused(w.spawn("more", sealed()), client.FailNotFoundCryptKey, "enter it")
	_, err := w.api.ModifyVolumeDefinition(ctx, "open", 0, client.VolumeDefinitionModify{Size: new(client.SizeKiB(128 << 10))})
	w.refused(err, client.FailNotFoundCryptKey, "enter it")
	_, err = w.api.Clone(ctx, "open", client.CloneRequest{Name: "clone"})
	w.refused(err, client.FailNotFoundCryptKey, "enter it")
	ok(t)(w.api.CreateSnapshot(ctx, "open", client.SnapshotCreate{Name: "snap"}))
	ok(t)(w.api.CreateResourceDefinition(ctx, client.ResourceDefinitionCreate{ResourceDefinition: client.NewResourceDefinition{Name: "back"}}))
	ok(t)(w.api.RestoreVolumeDefinitions(ctx, "open", "snap", client.SnapshotRestore{ToResource: "back"}))
	_, err = w.api.RestoreResource(ctx, "open", "snap", client.SnapshotRestore{ToResource: "back"})
	w.refused(err, client.FailNotFoundCryptKey, "enter it")
	_, err = w.api.EnterPassphrase(ctx, first)
	w.refused(err, wire.FailMissingProps, "last changed to")
	_, err = w.api.EnterPassphrase(ctx, "")
	w.refused(err, wire.FailMissingProps, "last changed to")
	w.state("shut", model.NodeName(reboots).Key(), observed.Failed)

	ok(t)(w.api.EnterPassphrase(ctx, second))
	w.state("shut", model.NodeName(reboots).Key(), observed.Ready)
	if !w.open("shut") {
		t.Error("the volume is not open")
	}
	must(0, w.spawn("more", sealed()))(t)
	ok(t)(w.api.RestoreResource(ctx, "open", "snap", client.SnapshotRestore{ToResource: "back"}))
	ok(t)(w.api.ModifyVolumeDefinition(ctx, "open", 0, client.VolumeDefinitionModify{Size: new(client.SizeKiB(128 << 10))}))

	// All can be deleted while it is locked.
	w = w.again(stays, reboots)
	ok(t)(w.api.DeleteSnapshot(ctx, "open", "snap"))
	for _, name := range []string{"open", "shut", "more", "back", "plain", "plain-too"} {
		ok(t)(w.api.DeleteResourceDefinition(ctx, name))
	}
	for name, a := range w.Agents {
		if left := a.Volumes(); len(left) > 0 {
			t.Errorf("left on %s: %v", name, left)
		}
	}
	w.Check()
	w.noSecretWasTold()
}

// An agent keeps no keys. When it is started anew and no controller is there, it leaves open what is
// open, and says of the rest why it is shut.
func TestAnAgentWithoutAControllerHasNoKeys(t *testing.T) {
	w := start(t, 1)
	ok(t)(w.api.CreatePassphrase(t.Context(), first))
	must(0, w.spawn("vol", sealed()))(t)
	a := w.Agents["n1"]
	w.StopAgent("n1")
	a.Reboot()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	dial := a.Dial
	a.Dial = nobody
	before := a.Applies()
	go func() { ended <- a.Run(ctx) }()
	w.Until(func() bool { return a.Applies() > before && w.log.has("keys are not kept on hosts") })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	a.Dial = dial
	w.StartAgent("n1")
	w.state("vol", "n1", observed.Ready)
	w.noSecretWasTold()
}

// A key that the database has damaged concerns its volume alone.
func TestADamagedKeyConcernsItsVolumeAlone(t *testing.T) {
	w := start(t, 1)
	ok(t)(w.api.CreatePassphrase(t.Context(), first))
	must(0, w.spawn("good", sealed()))(t)
	must(0, w.spawn("bad", sealed()))(t)
	w.damage("bad")
	w = w.again("n1")
	ok(t)(w.api.EnterPassphrase(t.Context(), first))
	w.state("good", "n1", observed.Ready)
	w.state("bad", "n1", observed.Failed)
	if text := w.says("bad"); !strings.Contains(text, "not what the master key of this cluster has sealed") {
		t.Errorf("the API says %s", text)
	}
	if !slices.Contains(must(w.api.Nodes(t.Context(), client.NodeFilter{}))(t)[0].ResourceLayers, client.LayerLUKS) {
		t.Error("the node does not offer LUKS")
	}
	ok(t)(w.api.DeleteResourceDefinition(t.Context(), "bad"))
}

// Who asks for encryption by a flag alone, as old clients do, is not given plain volumes.
func TestAVolumeThatIsSaidToBeEncryptedIsNotPlacedInPlain(t *testing.T) {
	w := start(t, 1)
	ctx := t.Context()
	ok(t)(w.api.CreatePassphrase(ctx, first))
	ok(t)(w.api.CreateResourceDefinition(ctx, client.ResourceDefinitionCreate{ResourceDefinition: client.NewResourceDefinition{Name: "vol"}}))
	ok(t)(w.api.CreateVolumeDefinition(ctx, "vol", client.VolumeDefinitionCreate{
		VolumeDefinition: client.NewVolumeDefinition{Size: new(client.SizeKiB(64 << 10)), Flags: []string{"ENCRYPTED"}},
	}))
	place := func(stack []client.LayerType) error {
		_, err := w.api.AutoPlace(ctx, "vol", client.AutoPlaceRequest{
			SelectFilter: &client.AutoSelectFilter{PlaceCount: new(client.Int32(1))}, LayerList: stack,
		})
		return err
	}
	w.refused(place(layers(client.LayerStorage)), wire.FailInvldLayerStack, "ask for the layer LUKS")
	must(0, place(sealed()))(t)
	must(0, w.spawn("plain", layers(client.LayerStorage)))(t)
	_, err := w.api.ModifyVolumeDefinition(ctx, "plain", 0, client.VolumeDefinitionModify{Flags: []string{"ENCRYPTED"}})
	w.refused(err, wire.FailInvldLayerStack, "ask for the layer LUKS")
}
