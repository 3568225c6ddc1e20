package main

import corev1 "k8s.io/api/core/v1"

// SidecarContainer is an element of spec.containers and spec.initContainers of a SidecarSet.
type SidecarContainer struct {
	corev1.Container        `json:",inline"`
	PodInjectPolicy         string                           `json:"podInjectPolicy,omitempty"`
	UpgradeStrategy         SidecarContainerUpgradeStrategy  `json:"upgradeStrategy"`
	ShareVolumePolicy       ShareVolumePolicy                `json:"shareVolumePolicy"`
	ShareVolumeDevicePolicy *ShareVolumePolicy               `json:"shareVolumeDevicePolicy,omitempty"`
	TransferEnv             []TransferEnvVar                 `json:"transferEnv,omitempty"`
	ResourcesPolicy         *SidecarContainerResourcesPolicy `json:"resourcesPolicy,omitempty"`
}

// SidecarContainerUpgradeStrategy says how a sidecar gets a new image.
type SidecarContainerUpgradeStrategy struct {
	UpgradeType          string `json:"upgradeType,omitempty"`
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// ShareVolumePolicy says whether the mounts or the block devices of the Pod's containers are shared.
type ShareVolumePolicy struct {
	Type string `json:"type,omitempty"`
}

// TransferEnvVar copies variables from a container of the Pod.
type TransferEnvVar struct {
	SourceContainerName     string                     `json:"sourceContainerName,omitempty"`
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`
	EnvName                 string                     `json:"envName,omitempty"`
	EnvNames                []string                   `json:"envNames,omitempty"`
}

// SourceContainerNameSource names a container by a label or an annotation of the Pod.
type SourceContainerNameSource struct {
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
}

// SidecarContainerResourcesPolicy computes resources from those of the Pod's containers.
type SidecarContainerResourcesPolicy struct {
	TargetContainersMode      string        `json:"targetContainersMode"`
	TargetContainersNameRegex string        `json:"targetContainersNameRegex,omitempty"`
	ResourcesExpr             ResourcesExpr `json:"resourcesExpr"`
}

// ResourcesExpr holds the expressions of a SidecarContainerResourcesPolicy.
type ResourcesExpr struct {
	Limits   *ResourceExprList `json:"limits,omitempty"`
	Requests *ResourceExprList `json:"requests,omitempty"`
}

// ResourceExprList holds one expression for each computed resource.
type ResourceExprList struct {
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
}

// SidecarSetPatchPodMetadata is an element of spec.patchPodMetadata of a SidecarSet.
type SidecarSetPatchPodMetadata struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	PatchPolicy string            `json:"patchPolicy,omitempty"`
}
