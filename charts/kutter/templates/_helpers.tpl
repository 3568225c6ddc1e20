{{/* Labels of every object. */}}
{{- define "kutter.labels" -}}
app.kubernetes.io/name: kutter
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The image of all containers. */}}
{{- define "kutter.image" -}}
{{- $image := .Values.manager.image }}
{{- $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- if and $image.digest (not $image.tag) }}@{{ $image.digest }}{{ end }}
{{- end }}

{{/* What a restricted Pod may do. */}}
{{- define "kutter.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "kutter.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
fsGroup: 65534
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Whoever reads protected metrics shows by a token who that is, and needs the right. */}}
{{- define "kutter.metricsRules" }}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}

{{/* Not empty where one of these gates is switched on, in any of the forms that the program understands:
include "kutter.gate" (list . "Gate" "AllAlpha"). */}}
{{- define "kutter.gate" -}}
{{- $names := rest . }}
{{- range splitList "," (first .).Values.featureGates }}
{{- $gate := splitn "=" 2 . }}
{{- if and (has (trim $gate._0) $names) (has (lower (trim (default "" $gate._1))) (list "1" "t" "true")) }}on{{ end }}
{{- end }}
{{- end }}

{{/* Not empty where Rollouts are installed. */}}
{{- define "kutter.rollouts" -}}
{{- include "kutter.gate" (list . "Rollouts" "AllAlpha") }}
{{- end }}

{{/* Not empty where the agent of the nodes is installed: its gate is on unless it is switched off. */}}
{{- define "kutter.daemon" -}}
{{- $off := "" }}
{{- range splitList "," .Values.featureGates }}
{{- $gate := splitn "=" 2 . }}
{{- if and (has (trim $gate._0) (list "KruiseDaemon" "AllBeta")) (has (lower (trim (default "" $gate._1))) (list "0" "f" "false")) }}
{{- $off = "off" }}
{{- end }}
{{- end }}
{{- if or (not $off) (include "kutter.gate" (list . "KruiseDaemon")) }}on{{ end }}
{{- end }}

{{/* Not empty where policies protect objects from deletion. A cluster without policies has the webhooks alone. */}}
{{- define "kutter.protectionPolicies" -}}
{{- $mode := .Values.protection.mode }}
{{- if not (has $mode (list "Webhook" "Policy" "Both")) }}
{{- fail "protection.mode must be Webhook, Policy or Both" }}
{{- end }}
{{- $off := regexMatch "(?i:(^|,) *ResourcesDeletionProtection *= *(0|f|false) *(,|$))" .Values.featureGates }}
{{- $on := and (not $off) (include "kutter.gate" (list . "AllBeta")) | or (include "kutter.gate" (list . "ResourcesDeletionProtection")) }}
{{- $old := semverCompare "<1.30-0" .Capabilities.KubeVersion.Version }}
{{- if and $on $old (eq $mode "Policy") }}
{{- fail "protection.mode=Policy needs Kubernetes 1.30" }}
{{- end }}
{{- if and $on (not $old) (ne $mode "Webhook") }}on{{ end }}
{{- end }}
