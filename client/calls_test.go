// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/client"
)

// call is a method of the client and the request that it must make.
type call struct {
	name   string
	do     func(context.Context, *client.Client) error
	want   string // method, escaped path with query, body
	answer string
}

func calls() []call {
	props := client.PropsModify{OverrideProps: client.Properties{"Aux/a": "1"}, DeleteProps: []string{"Aux/b"}, DeleteNamespaces: []string{"Aux/c"}}
	const changed = `{"override_props":{"Aux/a":"1"},"delete_props":["Aux/b"],"delete_namespaces":["Aux/c"]}`
	rc := func(_ client.RcList, err error) error { return err }
	return []call{
		{"Health", func(ctx context.Context, c *client.Client) error { return c.Health(ctx) }, "GET /health ", ""},
		{"ControllerVersion", func(ctx context.Context, c *client.Client) error { _, err := c.ControllerVersion(ctx); return err }, "GET /v1/controller/version ", "{}"},
		{"ControllerProperties", func(ctx context.Context, c *client.Client) error { _, err := c.ControllerProperties(ctx); return err }, "GET /v1/controller/properties ", "{}"},
		{"ModifyControllerProperties", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyControllerProperties(ctx, client.ControllerPropsModify{PropsModify: props}))
		}, "POST /v1/controller/properties " + changed, "[]"},
		{"DeleteControllerProperty", func(ctx context.Context, c *client.Client) error {
			return rc(c.DeleteControllerProperty(ctx, "Aux/a b/c"))
		}, "DELETE /v1/controller/properties/Aux/a%20b/c ", "[]"},
		{"KeyValueStores", func(ctx context.Context, c *client.Client) error { _, err := c.KeyValueStores(ctx); return err }, "GET /v1/key-value-store ", "[]"},
		{"KeyValueStore", func(ctx context.Context, c *client.Client) error { _, err := c.KeyValueStore(ctx, "k"); return err }, "GET /v1/key-value-store/k ", `[{"name":"k"}]`},
		{"ModifyKeyValueStore", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyKeyValueStore(ctx, "k", client.KeyValueStoreModify{PropsModify: props}))
		}, "PUT /v1/key-value-store/k " + changed, "[]"},
		{"DeleteKeyValueStore", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteKeyValueStore(ctx, "k")) }, "DELETE /v1/key-value-store/k ", "[]"},

		{"ControllerConfig", func(ctx context.Context, c *client.Client) error { _, err := c.ControllerConfig(ctx); return err }, "GET /v1/controller/config ", "{}"},
		{"ModifyControllerConfig", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyControllerConfig(ctx, client.ControllerConfig{Log: &client.ControllerConfigLog{LevelLinstor: "DEBUG"}}))
		}, `PUT /v1/controller/config {"log":{"level_linstor":"DEBUG"}}`, "[]"},
		{"SpaceReport", func(ctx context.Context, c *client.Client) error { _, err := c.SpaceReport(ctx); return err }, "GET /v1/space-report ", "{}"},
		{"PhysicalStorage", func(ctx context.Context, c *client.Client) error { _, err := c.PhysicalStorage(ctx); return err }, "GET /v1/physical-storage ", "[]"},
		{"CreateDevicePool", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateDevicePool(ctx, "n", client.PhysicalStorageCreate{ProviderKind: client.LVM, DevicePaths: []string{"/dev/sdb"}, PoolName: "vg"}))
		}, `POST /v1/physical-storage/n {"provider_kind":"LVM","device_paths":["/dev/sdb"],"pool_name":"vg"}`, "[]"},
		{
			"BackupDatabase", func(ctx context.Context, c *client.Client) error { return rc(c.BackupDatabase(ctx, "b")) },
			`POST /v1/controller/backup/db {"backup_name":"b"}`, "[]",
		},
		{"ModifyNodeConfig", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyNodeConfig(ctx, "n", client.ControllerConfig{Log: &client.ControllerConfigLog{LevelLinstor: "DEBUG"}}))
		}, `PUT /v1/nodes/n/config {"log":{"level_linstor":"DEBUG"}}`, "[]"},
		{"Remotes", func(ctx context.Context, c *client.Client) error { _, err := c.Remotes(ctx); return err }, "GET /v1/remotes ", "{}"},
		{
			"PassphraseStatus", func(ctx context.Context, c *client.Client) error { _, err := c.PassphraseStatus(ctx); return err },
			"GET /v1/encryption/passphrase ", `{"status":"unset"}`,
		},
		{
			"CreatePassphrase", func(ctx context.Context, c *client.Client) error { return rc(c.CreatePassphrase(ctx, "p")) },
			`POST /v1/encryption/passphrase {"new_passphrase":"p"}`, "[]",
		},
		{
			"EnterPassphrase", func(ctx context.Context, c *client.Client) error { return rc(c.EnterPassphrase(ctx, "p")) },
			`PATCH /v1/encryption/passphrase "p"`, "[]",
		},
		{
			"ModifyPassphrase", func(ctx context.Context, c *client.Client) error { return rc(c.ModifyPassphrase(ctx, "p", "q")) },
			`PUT /v1/encryption/passphrase {"new_passphrase":"q","old_passphrase":"p"}`, "[]",
		},
		{"ModifyVolumePassphrase", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyVolumePassphrase(ctx, "r", 1, "p"))
		}, `PUT /v1/resource-definitions/r/volume-definitions/1/encryption-passphrase {"new_passphrase":"p"}`, "[]"},
		{"MaxVolumeSizesFor", func(ctx context.Context, c *client.Client) error {
			_, err := c.MaxVolumeSizesFor(ctx, client.AutoSelectFilter{PlaceCount: new(client.Int32(2))})
			return err
		}, `OPTIONS /v1/query-max-volume-size {"place_count":2}`, "{}"},
		{"Jobs", func(ctx context.Context, c *client.Client) error {
			_, err := c.Jobs(ctx, client.JobFilter{States: []string{"running"}, Page: client.Page{Limit: 2}})
			return err
		}, "GET /v1/jobs?limit=2&offset=0&states=running ", "[]"},
		{"Job", func(ctx context.Context, c *client.Client) error { _, err := c.Job(ctx, "x"); return err }, "GET /v1/jobs/x ", "{}"},
		{"Explain", func(ctx context.Context, c *client.Client) error {
			_, err := c.Explain(ctx, "g", client.ExplainRequest{VolumeSizes: []client.SizeKiB{5}})
			return err
		}, `POST /v1/resource-groups/g/explain {"volume_sizes":[5]}`, "{}"},
		{"PendingDeletes", func(ctx context.Context, c *client.Client) error { _, err := c.PendingDeletes(ctx); return err }, "GET /v1/pending-deletes ", "[]"},
		{"QueryAllSizeInfo", func(ctx context.Context, c *client.Client) error {
			_, err := c.QueryAllSizeInfo(ctx, client.QueryAllSizeInfoRequest{IgnoreCacheOlderThanSec: new(client.Int32(9))})
			return err
		}, `POST /v1/queries/resource-groups/query-all-size-info {"ignore_cache_older_than_sec":9}`, "{}"},
		{"MaxVolumeSizes", func(ctx context.Context, c *client.Client) error { _, err := c.MaxVolumeSizes(ctx, "g"); return err }, "GET /v1/resource-groups/g/query-max-volume-size ", "{}"},
		{"Orphans", func(ctx context.Context, c *client.Client) error {
			_, err := c.Orphans(ctx, client.OrphanFilter{Nodes: []string{"n"}, StoragePools: []string{"p"}})
			return err
		}, "GET /v1/orphans?nodes=n&storage_pools=p ", "[]"},
		{"RemoveOrphans", func(ctx context.Context, c *client.Client) error {
			return rc(c.RemoveOrphans(ctx, "n", "p", []string{"a/b", "c"}))
		}, "DELETE /v1/nodes/n/storage-pools/p/orphans?volume=a%2Fb&volume=c ", "[]"},

		{"ErrorReports", func(ctx context.Context, c *client.Client) error {
			_, err := c.ErrorReports(ctx, client.ErrorReportFilter{Nodes: []string{"n"}, Since: time.UnixMilli(5), To: time.UnixMilli(7), WithText: true})
			return err
		}, "GET /v1/error-reports?node=n&since=5&to=7&withContent=true ", "[]"},
		{"ErrorReport", func(ctx context.Context, c *client.Client) error {
			_, err := c.ErrorReport(ctx, "65A0-00000-000001")
			return err
		}, "GET /v1/error-reports/65A0-00000-000001?withContent=true ", `[{"error_time":1}]`},
		{"DeleteErrorReports", func(ctx context.Context, c *client.Client) error {
			return rc(c.DeleteErrorReports(ctx, client.ErrorReportDelete{IDs: []string{"x"}, To: new(client.Int64(9))}))
		}, `PATCH /v1/error-reports {"to":9,"ids":["x"]}`, "[]"},

		{"Nodes", func(ctx context.Context, c *client.Client) error {
			_, err := c.Nodes(ctx, client.NodeFilter{Nodes: []string{"a", "b"}, Props: []string{"Aux/x=y"}, Page: client.Page{Offset: 5, Limit: 10}})
			return err
		}, "GET /v1/nodes?limit=10&nodes=a&nodes=b&offset=5&props=Aux%2Fx%3Dy ", "[]"},
		{"Node", func(ctx context.Context, c *client.Client) error { _, err := c.Node(ctx, "../n"); return err }, "GET /v1/nodes/..%2Fn ", "{}"},
		{"CreateNode", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateNode(ctx, client.NodeCreate{Name: "n", Type: client.NodeSatellite, NetInterfaces: []client.NetInterfaceCreate{
				{Name: "default", Address: "10.0.0.1", SatellitePort: new(client.Int32(3366)), IsActive: new(true)},
			}}))
		}, `POST /v1/nodes {"name":"n","type":"Satellite","net_interfaces":[{"name":"default","address":"10.0.0.1","satellite_port":3366,"is_active":true}]}`, "[]"},
		{"ModifyNode", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyNode(ctx, "n", client.NodeModify{PropsModify: props}))
		}, "PUT /v1/nodes/n " + changed, "[]"},
		{"CreateJoinToken", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateJoinToken(ctx, "n", client.JoinTokenCreate{ExpiresIn: new(int64(60))})
			return err
		}, `POST /v1/nodes/n/join-token {"expires_in_s":60}`, `{"token":"t"}`},
		{"DeleteNode", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteNode(ctx, "n")) }, "DELETE /v1/nodes/n ", "[]"},
		{"ReconnectNode", func(ctx context.Context, c *client.Client) error { return rc(c.ReconnectNode(ctx, "n")) }, "PUT /v1/nodes/n/reconnect ", "[]"},
		{"EvacuateNode", func(ctx context.Context, c *client.Client) error {
			return rc(c.EvacuateNode(ctx, "n", client.NodeEvacuate{Target: []string{"m"}, DoNotTarget: []string{"o"}}))
		}, `PUT /v1/nodes/n/evacuate {"target":["m"],"do_not_target":["o"]}`, "[]"},
		{"EvictNode", func(ctx context.Context, c *client.Client) error { return rc(c.EvictNode(ctx, "n")) }, "PUT /v1/nodes/n/evict ", "[]"},
		{"RestoreNode", func(ctx context.Context, c *client.Client) error {
			return rc(c.RestoreNode(ctx, "n", client.NodeRestore{DeleteResources: new(true)}))
		}, `PUT /v1/nodes/n/restore {"delete_resources":true}`, "[]"},
		{"LoseNode", func(ctx context.Context, c *client.Client) error { return rc(c.LoseNode(ctx, "n")) }, "DELETE /v1/nodes/n/lost ", "[]"},
		{"NodeConnections", func(ctx context.Context, c *client.Client) error {
			_, err := c.NodeConnections(ctx, "n", "")
			return err
		}, "GET /v1/node-connections?node_a=n ", "[]"},
		{"ModifyNodeConnection", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyNodeConnection(ctx, "n", "m", client.NodeConnectionModify{PropsModify: props}))
		}, "PUT /v1/node-connections/n/m " + changed, "[]"},
		{"StoragePoolDefinitions", func(ctx context.Context, c *client.Client) error { _, err := c.StoragePoolDefinitions(ctx); return err }, "GET /v1/storage-pool-definitions ", "[]"},
		{"StoragePoolDefinition", func(ctx context.Context, c *client.Client) error {
			_, err := c.StoragePoolDefinition(ctx, "p")
			return err
		}, "GET /v1/storage-pool-definitions/p ", "{}"},
		{"CreateStoragePoolDefinition", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateStoragePoolDefinition(ctx, client.StoragePoolDefinition{StoragePoolName: "p"}))
		}, `POST /v1/storage-pool-definitions {"storage_pool_name":"p"}`, "[]"},
		{"ModifyStoragePoolDefinition", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyStoragePoolDefinition(ctx, "p", client.StoragePoolDefinitionModify{PropsModify: props}))
		}, "PUT /v1/storage-pool-definitions/p " + changed, "[]"},
		{"DeleteStoragePoolDefinition", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteStoragePoolDefinition(ctx, "p")) }, "DELETE /v1/storage-pool-definitions/p ", "[]"},
		{"NetInterfaces", func(ctx context.Context, c *client.Client) error { _, err := c.NetInterfaces(ctx, "n"); return err }, "GET /v1/nodes/n/net-interfaces ", "[]"},
		{"NetInterface", func(ctx context.Context, c *client.Client) error { _, err := c.NetInterface(ctx, "n", "i"); return err }, "GET /v1/nodes/n/net-interfaces/i ", "{}"},
		{"CreateNetInterface", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateNetInterface(ctx, "n", client.NetInterfaceCreate{Name: "i", Address: "::1"}))
		}, `POST /v1/nodes/n/net-interfaces {"name":"i","address":"::1"}`, "[]"},
		{"ModifyNetInterface", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyNetInterface(ctx, "n", "i", client.NetInterfaceModify{IsActive: new(false)}))
		}, `PUT /v1/nodes/n/net-interfaces/i {"is_active":false}`, "[]"},
		{"DeleteNetInterface", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteNetInterface(ctx, "n", "i")) }, "DELETE /v1/nodes/n/net-interfaces/i ", "[]"},
		{"StoragePools", func(ctx context.Context, c *client.Client) error {
			_, err := c.StoragePools(ctx, client.StoragePoolFilter{Nodes: []string{"n"}, StoragePools: []string{"p"}})
			return err
		}, "GET /v1/view/storage-pools?nodes=n&storage_pools=p ", "[]"},
		{"NodeStoragePools", func(ctx context.Context, c *client.Client) error { _, err := c.NodeStoragePools(ctx, "n"); return err }, "GET /v1/nodes/n/storage-pools ", "[]"},
		{"StoragePool", func(ctx context.Context, c *client.Client) error { _, err := c.StoragePool(ctx, "n", "p"); return err }, "GET /v1/nodes/n/storage-pools/p ", "{}"},
		{"CreateStoragePool", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateStoragePool(ctx, "n", client.StoragePoolCreate{
				StoragePoolName: "p", ProviderKind: client.LVMThin, Props: client.Properties{client.PropBackingPool: "vg/thin"},
			}))
		}, `POST /v1/nodes/n/storage-pools {"storage_pool_name":"p","provider_kind":"LVM_THIN","props":{"StorDriver/StorPoolName":"vg/thin"}}`, "[]"},
		{"ModifyStoragePool", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyStoragePool(ctx, "n", "p", client.StoragePoolModify{PropsModify: props}))
		}, "PUT /v1/nodes/n/storage-pools/p " + changed, "[]"},
		{"DeleteStoragePool", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteStoragePool(ctx, "n", "p")) }, "DELETE /v1/nodes/n/storage-pools/p ", "[]"},

		{"ResourceGroups", func(ctx context.Context, c *client.Client) error {
			_, err := c.ResourceGroups(ctx, client.ResourceGroupFilter{ResourceGroups: []string{"g"}})
			return err
		}, "GET /v1/resource-groups?resource_groups=g ", "[]"},
		{"ResourceGroup", func(ctx context.Context, c *client.Client) error { _, err := c.ResourceGroup(ctx, "g"); return err }, "GET /v1/resource-groups/g ", "{}"},
		{"CreateResourceGroup", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateResourceGroup(ctx, client.ResourceGroupCreate{Name: "g", SelectFilter: &client.AutoSelectFilter{PlaceCount: new(client.Int32(2))}}))
		}, `POST /v1/resource-groups {"name":"g","select_filter":{"place_count":2}}`, "[]"},
		{"ModifyResourceGroup", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyResourceGroup(ctx, "g", client.ResourceGroupModify{SelectFilter: &client.AutoSelectFilter{StoragePoolList: []string{}}}))
		}, `PUT /v1/resource-groups/g {"select_filter":{"storage_pool_list":[]}}`, "[]"},
		{"DeleteResourceGroup", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteResourceGroup(ctx, "g")) }, "DELETE /v1/resource-groups/g ", "[]"},
		{"VolumeGroups", func(ctx context.Context, c *client.Client) error { _, err := c.VolumeGroups(ctx, "g"); return err }, "GET /v1/resource-groups/g/volume-groups ", "[]"},
		{"VolumeGroup", func(ctx context.Context, c *client.Client) error { _, err := c.VolumeGroup(ctx, "g", 0); return err }, "GET /v1/resource-groups/g/volume-groups/0 ", "{}"},
		{"CreateVolumeGroup", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateVolumeGroup(ctx, "g", client.VolumeGroupCreate{}))
		}, "POST /v1/resource-groups/g/volume-groups {}", "[]"},
		{"ModifyVolumeGroup", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyVolumeGroup(ctx, "g", 1, client.VolumeGroupModify{PropsModify: props}))
		}, "PUT /v1/resource-groups/g/volume-groups/1 " + changed, "[]"},
		{"DeleteVolumeGroup", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteVolumeGroup(ctx, "g", 1)) }, "DELETE /v1/resource-groups/g/volume-groups/1 ", "[]"},
		{"Spawn", func(ctx context.Context, c *client.Client) error {
			return rc(c.Spawn(ctx, "g", client.ResourceGroupSpawn{ResourceDefinitionName: "r", VolumeSizes: []client.SizeKiB{client.RoundUp(1)}, Partial: new(false)}))
		}, `POST /v1/resource-groups/g/spawn {"resource_definition_name":"r","volume_sizes":[1],"partial":false}`, "[]"},
		{"AdjustResourceGroup", func(ctx context.Context, c *client.Client) error {
			return rc(c.AdjustResourceGroup(ctx, "g", client.ResourceGroupAdjust{}))
		}, "POST /v1/resource-groups/g/adjust {}", "[]"},
		{"AdjustAllResourceGroups", func(ctx context.Context, c *client.Client) error {
			return rc(c.AdjustAllResourceGroups(ctx, client.ResourceGroupAdjust{SelectFilter: &client.AutoSelectFilter{PlaceCount: new(client.Int32(2))}}))
		}, `POST /v1/resource-groups/adjustall {"select_filter":{"place_count":2}}`, "[]"},
		{"QuerySizeInfo", func(ctx context.Context, c *client.Client) error {
			_, err := c.QuerySizeInfo(ctx, "g", client.QuerySizeInfoRequest{})
			return err
		}, "POST /v1/resource-groups/g/query-size-info {}", "{}"},

		{"ResourceDefinitions", func(ctx context.Context, c *client.Client) error {
			_, err := c.ResourceDefinitions(ctx, client.ResourceDefinitionFilter{ResourceDefinitions: []string{"r"}, WithVolumeDefinitions: true})
			return err
		}, "GET /v1/resource-definitions?resource_definitions=r&with_volume_definitions=true ", "[]"},
		{"ResourceDefinition", func(ctx context.Context, c *client.Client) error {
			_, err := c.ResourceDefinition(ctx, "r")
			return err
		}, "GET /v1/resource-definitions/r ", "{}"},
		{"CreateResourceDefinition", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateResourceDefinition(ctx, client.ResourceDefinitionCreate{ResourceDefinition: client.NewResourceDefinition{Name: "r"}}))
		}, `POST /v1/resource-definitions {"resource_definition":{"name":"r"}}`, "[]"},
		{"ModifyResourceDefinition", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyResourceDefinition(ctx, "r", client.ResourceDefinitionModify{ResourceGroup: "g"}))
		}, `PUT /v1/resource-definitions/r {"resource_group":"g"}`, "[]"},
		{"DeleteResourceDefinition", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteResourceDefinition(ctx, "r")) }, "DELETE /v1/resource-definitions/r ", "[]"},
		{"SyncStatus", func(ctx context.Context, c *client.Client) error { _, err := c.SyncStatus(ctx, "r"); return err }, "GET /v1/resource-definitions/r/sync-status ", "{}"},
		{"ResourceConnections", func(ctx context.Context, c *client.Client) error {
			_, err := c.ResourceConnections(ctx, "r")
			return err
		}, "GET /v1/resource-definitions/r/resource-connections ", "[]"},
		{"ResourceConnection", func(ctx context.Context, c *client.Client) error {
			_, err := c.ResourceConnection(ctx, "r", "a", "b")
			return err
		}, "GET /v1/resource-definitions/r/resource-connections/a/b ", "{}"},
		{"ModifyResourceConnection", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyResourceConnection(ctx, "r", "a", "b", client.ResourceConnectionModify{PropsModify: props}))
		}, "PUT /v1/resource-definitions/r/resource-connections/a/b " + changed, "[]"},
		{"VolumeDefinitions", func(ctx context.Context, c *client.Client) error { _, err := c.VolumeDefinitions(ctx, "r"); return err }, "GET /v1/resource-definitions/r/volume-definitions ", "[]"},
		{"VolumeDefinition", func(ctx context.Context, c *client.Client) error {
			_, err := c.VolumeDefinition(ctx, "r", 0)
			return err
		}, "GET /v1/resource-definitions/r/volume-definitions/0 ", "{}"},
		{"CreateVolumeDefinition", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateVolumeDefinition(ctx, "r", client.VolumeDefinitionCreate{VolumeDefinition: client.NewVolumeDefinition{
				VolumeNumber: new(client.Int32(0)), Size: new(client.SizeKiB(1024)),
			}}))
		}, `POST /v1/resource-definitions/r/volume-definitions {"volume_definition":{"volume_number":0,"size_kib":1024}}`, "[]"},
		{"ModifyVolumeDefinition", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyVolumeDefinition(ctx, "r", 0, client.VolumeDefinitionModify{Size: new(client.SizeKiB(4))}))
		}, `PUT /v1/resource-definitions/r/volume-definitions/0 {"size_kib":4}`, "[]"},
		{"DeleteVolumeDefinition", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteVolumeDefinition(ctx, "r", 0)) }, "DELETE /v1/resource-definitions/r/volume-definitions/0 ", "[]"},

		{"AllResources", func(ctx context.Context, c *client.Client) error {
			_, err := c.AllResources(ctx, client.ResourceFilter{Nodes: []string{"n"}, Resources: []string{"r"}, StoragePools: []string{"p"}})
			return err
		}, "GET /v1/view/resources?nodes=n&resources=r&storage_pools=p ", "[]"},
		{"Resources", func(ctx context.Context, c *client.Client) error { _, err := c.Resources(ctx, "r"); return err }, "GET /v1/resource-definitions/r/resources ", "[]"},
		{"Resource", func(ctx context.Context, c *client.Client) error { _, err := c.Resource(ctx, "r", "n"); return err }, "GET /v1/resource-definitions/r/resources/n ", "{}"},
		{"CreateResources", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateResources(ctx, "r", []client.ResourceCreate{{Resource: client.NewResource{NodeName: "n"}}}))
		}, `POST /v1/resource-definitions/r/resources [{"resource":{"node_name":"n"}}]`, "[]"},
		{"CreateResource", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateResource(ctx, "r", "n", client.ResourceCreate{LayerList: []client.LayerType{client.LayerStorage}}))
		}, `POST /v1/resource-definitions/r/resources/n {"resource":{},"layer_list":["STORAGE"]}`, "[]"},
		{"ModifyResource", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyResource(ctx, "r", "n", client.ResourceModify{PropsModify: props}))
		}, "PUT /v1/resource-definitions/r/resources/n " + changed, "[]"},
		{"DeleteResource", func(ctx context.Context, c *client.Client) error { return rc(c.DeleteResource(ctx, "r", "n", true)) }, "DELETE /v1/resource-definitions/r/resources/n?keep_tiebreaker=true ", "[]"},
		{"AutoPlace", func(ctx context.Context, c *client.Client) error {
			return rc(c.AutoPlace(ctx, "r", client.AutoPlaceRequest{SelectFilter: &client.AutoSelectFilter{}}))
		}, `POST /v1/resource-definitions/r/autoplace {"select_filter":{}}`, "[]"},
		{"MakeAvailable", func(ctx context.Context, c *client.Client) error {
			return rc(c.MakeAvailable(ctx, "r", "n", client.ResourceMakeAvailable{Diskful: new(true)}))
		}, `POST /v1/resource-definitions/r/resources/n/make-available {"diskful":true}`, "[]"},
		{"Volumes", func(ctx context.Context, c *client.Client) error { _, err := c.Volumes(ctx, "r", "n"); return err }, "GET /v1/resource-definitions/r/resources/n/volumes ", "[]"},
		{"ModifyVolume", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifyVolume(ctx, "r", "n", 0, client.VolumeModify{PropsModify: props}))
		}, "PUT /v1/resource-definitions/r/resources/n/volumes/0 " + changed, "[]"},
		{"Volume", func(ctx context.Context, c *client.Client) error { _, err := c.Volume(ctx, "r", "n", 0); return err }, "GET /v1/resource-definitions/r/resources/n/volumes/0 ", "{}"},

		{"HostJobs", func(ctx context.Context, c *client.Client) error {
			_, err := c.HostJobs(ctx, "n", client.JobFilter{States: []string{"done"}})
			return err
		}, "GET /v1/nodes/n/jobs?states=done ", "[]"},
		{"HostJob", func(ctx context.Context, c *client.Client) error { _, err := c.HostJob(ctx, "n", "j"); return err }, "GET /v1/nodes/n/jobs/j ", "{}"},
		{"StartHostJob", func(ctx context.Context, c *client.Client) error {
			return rc(c.StartHostJob(ctx, "n", client.HostJobCreate{ID: "j", Kind: "download", URL: "http://x/", To: &client.JobEnd{ResourceName: "r"}}))
		}, `POST /v1/nodes/n/jobs {"id":"j","kind":"download","to":{"resource_name":"r","volume_number":0},"url":"http://x/"}`, "[]"},
		{"EndHostJob", func(ctx context.Context, c *client.Client) error { return rc(c.EndHostJob(ctx, "n", "j")) }, "DELETE /v1/nodes/n/jobs/j ", "[]"},
		{"HeldPools", func(ctx context.Context, c *client.Client) error { _, err := c.HeldPools(ctx, "n"); return err }, "GET /v1/nodes/n/held-pools ", "[]"},
		{"InspectPool", func(ctx context.Context, c *client.Client) error { _, err := c.InspectPool(ctx, "n", "p"); return err }, "GET /v1/nodes/n/storage-pools/p/holds ", "{}"},
		{"AcquireHold", func(ctx context.Context, c *client.Client) error {
			return rc(c.AcquireHold(ctx, "n", "p", client.HoldCreate{ID: "h", ReadOnly: new(true)}))
		}, `POST /v1/nodes/n/storage-pools/p/holds {"id":"h","read_only":true}`, "[]"},
		{"ReleaseHold", func(ctx context.Context, c *client.Client) error { return rc(c.ReleaseHold(ctx, "n", "p", "a/b")) }, "DELETE /v1/nodes/n/storage-pools/p/holds?id=a%2Fb ", "[]"},
	}
}

func TestEachCallMakesItsRequest(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range append(calls(), snapshotCalls()...) {
		tested[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			var got string
			s := served(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = r.Method + " " + r.RequestURI + " " + string(body)
				if hasType := r.Header.Get("Content-Type") == "application/json"; hasType != (len(body) > 0) {
					t.Errorf("content type %q", r.Header.Get("Content-Type"))
				}
				_, _ = io.WriteString(w, c.answer)
			})
			if err := c.do(t.Context(), newClient(t, []string{s.URL})); err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	for m := range reflect.TypeFor[*client.Client]().Methods() {
		if !tested[m.Name] {
			t.Errorf("%s is not tested", m.Name)
		}
	}
}

func TestListsAreRead(t *testing.T) {
	const body = `[{"name":"r1","node_name":"n1","layer_object":{"type":"STORAGE","storage":{"storage_volumes":[{"volume_number":0}]}},
		"state":{"in_use":false},"volumes":[{"volume_number":0,"provider_kind":"FILE_THIN","allocated_size_kib":4,
		"layer_data_list":[{"type":"STORAGE","data":{"volume_number":0,"usable_size_kib":8}}]}],"future":{"a":1}}]`
	s := served(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	got, err := newClient(t, []string{s.URL}).AllResources(t.Context(), client.ResourceFilter{})
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, error %v", got, err)
	}
	r := got[0]
	data, ok := r.Volumes[0].LayerDataList[0].Data.(client.StorageVolume)
	if !ok || *data.UsableSize != 8 || *r.Volumes[0].AllocatedSize != 4 || *r.State.InUse || r.Volumes[0].ProviderKind != client.FileThin {
		t.Errorf("got %+v", r)
	}
	if strings.Contains(r.Name, "future") || r.CreateTimestamp != nil {
		t.Errorf("got %+v", r)
	}
}
