import { afterEach, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { EndpointStatus } from '../../src/reporting/contract.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { parseMetrics } from '../support/metrics-page.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

describe('a URL that fails beside one that accepts everything', () => {
  let place: Place;
  let program: Program;
  const receivers: TestReceiver[] = [];

  afterEach(async () => {
    await program.kill();
    for (const receiver of receivers.splice(0)) await receiver.stop();
    place.remove();
  });

  const token = () => adminTokenOf(place);
  const api = new ControlApi(() => ({ url: program.url, token: token() }));

  async function metrics(): Promise<string> {
    const headers = { authorization: `Bearer ${token()}` };
    return (await fetch(`${program.url}/metrics`, { headers })).text();
  }

  async function endpointsWhen(isReached: (dead: EndpointStatus) => boolean) {
    const shown = await api.until<{ state: string; endpoints: EndpointStatus[] }>(
      'destinations/crm/status',
      ({ endpoints }) => isReached(endpoints[1]!),
    );
    expect(shown.state).toBe('healthy');
    return shown.endpoints;
  }

  const endpoints = () => endpointsWhen(() => true);

  /** Of the URL that fails, by the end of the name and the labels. */
  async function metricsOf(name: string) {
    const family = parseMetrics(await metrics()).get(name)!;
    return family.series.filter(({ labels }) => labels['endpoint']!.startsWith('2/'));
  }

  it('is failing in status, API and metrics, counts late answers, and is so after a kill', async () => {
    const good = await startReceiver();
    const dead = await startReceiver({
      // The sibling has answered by then, and the delivery does not wait for this answer.
      answer: (response) => void setTimeout(() => response.writeHead(503).end('no room'), 50).unref(),
    });
    receivers.push(good, dead);
    place = makePlace(oneDestination([`${good.url}/in`, `${dead.url}/in?token=s3cret-of-it`]));
    program = await startServer(place);
    for (let n = 0; n < 21; n++) await send(program.url, '/v1/track', track(`m${n}`));
    await good.count(21);

    const [first, second] = await endpointsWhen(({ attempts }) => attempts['status_5xx'] === 21);
    const lastAcceptedAt = expect.stringMatching(/^\d{4}-.*Z$/);
    expect(first).toMatchObject({ state: 'healthy', attempts: { accepted: 21 }, lastAcceptedAt });
    expect(second).not.toHaveProperty('lastAcceptedAt');
    const lastError = { reason: 'status_503', status: 503, answer: 'no room', at: expect.any(String) };
    expect(second).toMatchObject({ endpoint: `${dead.url}/in?token=…`, state: 'failing', lastError });
    expect(second!.history).toEqual([{ at: second!.since, state: 'failing', reason: 'status_503' }]);
    // The last results are written in a group, a moment after their answers.
    const status = await until('everything is delivered', async () => {
      const said = await runVerb(['status', '--url', program.url, '--data', place.data]);
      expect(said.out).toMatch(/crm +healthy +21 +21 +0/);
      return said;
    });
    expect(status.out).toContain('failing endpoint');
    expect(status.out).toMatch(/\/in\?token=… +crm +\d\d:\d\d +status_503 \d+ m?s ago: no room/);
    const { host } = new URL(dead.url);
    const labels = { destination: 'crm', endpoint: `2/${host}` };
    expect(await metricsOf('millrace_endpoint_state')).toEqual([
      { name: 'millrace_endpoint_state', labels: { ...labels, state: 'healthy' }, value: 0 },
      { name: 'millrace_endpoint_state', labels: { ...labels, state: 'failing' }, value: 1 },
    ]);
    expect(await metricsOf('millrace_endpoint_attempts_total')).toEqual([
      { name: 'millrace_endpoint_attempts_total', labels: { ...labels, outcome: 'accepted' }, value: 0 },
      { name: 'millrace_endpoint_attempts_total', labels: { ...labels, outcome: 'status_5xx' }, value: 21 },
    ]);

    await program.stop();
    program = await startServer(place);
    const [, again] = await endpoints();
    expect(again).toEqual(second);
    expect(JSON.stringify(await endpoints()) + (await metrics())).not.toContain('s3cret');
    await send(program.url, '/v1/track', track('once more'));
    await endpointsWhen(({ attempts }) => attempts['status_5xx'] === 22);
    // A change of state is written within a second, other changes every ten seconds.
    await program.kill();
    program = await startServer(place);
    const [, killed] = await endpoints();
    expect(killed).toMatchObject({ state: 'failing', since: second!.since });
    expect(killed!.attempts['status_5xx']).toBeGreaterThanOrEqual(21);
  });
});
