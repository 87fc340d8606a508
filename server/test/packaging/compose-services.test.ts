import { describe, expect, it } from 'vitest';
import { readCompose } from './compose.ts';
import { readDockerfile } from './dockerfile.ts';

const { services, volumes } = readCompose();
const { database, a, b, proxy } = services as Record<
  'database' | 'a' | 'b' | 'proxy',
  (typeof services)[string]
>;

describe('compose.yaml', () => {
  it('starts nodes when the database answers, and the proxy when the nodes are ready', () => {
    expect(Object.keys(services)).toEqual(['database', 'a', 'b', 'proxy']);
    // The socket answers while the image is still making the database.
    expect(database.healthcheck?.test.join(' ')).toBe('CMD pg_isready -h 127.0.0.1 -U millrace');
    for (const node of [a, b]) {
      expect(node.depends_on).toEqual({ database: { condition: 'service_healthy' } });
      expect(node.healthcheck?.test.slice(0, 3)).toEqual(['CMD', 'node', '-e']);
      expect(node.healthcheck?.test[3]).toContain('/readyz');
    }
    const isHealthy = { condition: 'service_healthy' };
    expect(proxy.depends_on).toEqual({ a: isHealthy, b: isHealthy });
  });

  it('lets nodes believe the proxy and nobody else', () => {
    const { ipv4_address: address } = proxy.networks.default;
    for (const node of [a, b]) expect(node.environment?.['MILLRACE_TRUSTED_PROXIES']).toBe(`${address}/32`);
    const all = Object.values(services).map(({ networks }) => networks.default.ipv4_address);
    expect(new Set(all).size).toBe(all.length);
  });

  it('publishes calls to all, and the port of operators to this machine alone', () => {
    expect(proxy.ports).toEqual(['8080:8080', '127.0.0.1:8081:8081']);
    for (const node of [a, b]) {
      const { ipv4_address: address } = node.networks.default;
      expect(node.ports).toBeUndefined();
      expect(node.environment).toMatchObject({
        MILLRACE_ADMIN_HOST: address,
        MILLRACE_ADMIN_PORT: 8081,
        MILLRACE_URL: `http://${address}:8081`,
      });
    }
  });

  it('gives nodes names and data folders of their own, and nothing else to write to', () => {
    expect([a, b].map(({ environment }) => environment?.['MILLRACE_NODE'])).toEqual(['a', 'b']);
    const ends = readDockerfile().at(-1)!.instructions;
    const folder = ends.find(({ name }) => name === 'VOLUME')!.rest;
    for (const [name, node] of Object.entries({ a, b })) {
      expect(node.volumes).toContain(`${name}:${folder}`);
      expect(Object.keys(volumes)).toContain(name);
      expect(node).toMatchObject({ read_only: true, tmpfs: ['/tmp'], cap_drop: ['ALL'] });
      expect(node.security_opt).toEqual(['no-new-privileges:true']);
    }
  });
});
