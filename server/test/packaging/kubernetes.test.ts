import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import { ROOT } from '../support/program.ts';
import { readDockerfile } from './dockerfile.ts';

interface Pod {
  readonly enableServiceLinks: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: { readonly runAsUser: number; readonly runAsGroup: number };
  readonly volumes: readonly { readonly name: string }[];
  readonly containers: readonly {
    readonly env: readonly { readonly name: string; readonly value?: string }[];
    readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
    readonly readinessProbe: object;
    readonly livenessProbe: object;
  }[];
}

interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: object;
}

const resources = parseAllDocuments(readFileSync(join(ROOT, 'deploy/kubernetes.yaml'), 'utf8')).map(
  (one) => one.toJS() as Resource,
);
const find = (kind: string, name = 'millrace') =>
  resources.find((one) => one.kind === kind && one.metadata.name === name)!;
const set = find('StatefulSet').spec as {
  serviceName: string;
  template: { spec: Pod };
  volumeClaimTemplates: { metadata: { name: string } }[];
};
const pod = set.template.spec;
const container = pod.containers[0]!;

describe('deploy/kubernetes.yaml', () => {
  it('has a configuration that the program takes', () => {
    const text = find('ConfigMap').data!['millrace.yaml']!;
    const { config } = loadConfig({
      file: { path: 'millrace.yaml', text },
      env: {},
      flags: {},
      defaults: { host: '0.0.0.0' },
    });
    expect(config.admin.port).toBe(8081);
    expect(config).toMatchObject({ port: 8080, database: 'postgres://millrace@database/millrace' });
  });

  it('runs as the user of the image, writes to its data folder, and mounts what there is', () => {
    const last = readDockerfile().at(-1)!.instructions;
    const rest = (name: string) => last.find((one) => one.name === name)!.rest;
    const { runAsUser, runAsGroup } = pod.securityContext;
    expect(`${runAsUser}:${runAsGroup}`).toBe(rest('USER'));
    expect(container.volumeMounts.find(({ name }) => name === 'data')?.mountPath).toBe(rest('VOLUME'));
    const there = [...pod.volumes, ...set.volumeClaimTemplates.map(({ metadata }) => metadata)];
    expect(there.map(({ name }) => name).sort()).toEqual(
      container.volumeMounts.map(({ name }) => name).sort(),
    );
  });

  it('keeps the variables of services out, gives each node the name of its pod, and asks what the program answers', () => {
    expect(pod.enableServiceLinks).toBe(false);
    expect(container.env).toContainEqual({
      name: 'MILLRACE_NODE',
      valueFrom: { fieldRef: { fieldPath: 'metadata.name' } },
    });
    expect(container.readinessProbe).toMatchObject({ httpGet: { path: '/readyz' } });
    expect(container.livenessProbe).toMatchObject({ httpGet: { path: '/healthz' } });
    // The image asks for 30 seconds behind the five before the signal.
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(35);
    expect(find('Service', set.serviceName).spec).toMatchObject({ clusterIP: 'None' });
    expect(find('Service', 'millrace-control').spec).toMatchObject({
      sessionAffinity: 'ClientIP',
      ports: [{ name: 'http', port: 8081, targetPort: 'admin' }],
    });
    expect(find('Service').spec).toMatchObject({ ports: [{ name: 'http', port: 8080, targetPort: 'http' }] });
  });
});
