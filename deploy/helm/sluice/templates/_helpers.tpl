{{- define "sluice.name" -}}
{{- if contains "sluice" .Release.Name }}{{ .Release.Name | trunc 50 }}{{ else }}{{ printf "%s-sluice" .Release.Name | trunc 50 }}{{ end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sluice.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: keys, mountPath: /data/keys, readOnly: true}
  - {name: spool, mountPath: /spool}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "sluice.pod" -}}
automountServiceAccountToken: false
# Kubernetes would set SLUICE_PORT for a Service of that name.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - {name: data, emptyDir: {}}
  - {name: spool, emptyDir: {sizeLimit: {{ .Values.spool.sizeLimit }}}}
  - {name: tmp, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
  - name: keys
    secret: {secretName: {{ .Values.secrets.keys }}, defaultMode: 0440}
{{- end }}
