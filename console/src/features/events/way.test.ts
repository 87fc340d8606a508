import { describe, expect, it } from 'vitest';
import { endpointLabels, mostTelling, wayOf } from './way.ts';

const receivedAt = '2026-11-20T14:00:00.000Z';
const attempt = (startedAt: string, latencyMs: number) => ({
  endpoint: 'https://crm.example/in',
  startedAt,
  latencyMs,
  outcome: 'retryable' as const,
  reason: 'timeout',
});

describe("an event's way", () => {
  it('is to scale, with the wait between two attempts', () => {
    const attempts = [attempt('2026-11-20T14:00:00.000Z', 5_000), attempt('2026-11-20T14:00:06.000Z', 2_000)];
    const { lanes, span, ticks } = wayOf({
      receivedAt,
      deliveries: [{ id: '1-1', destination: 'crm', state: 'retrying', attempts }],
    });
    expect(span).toBe(8_000);
    expect(lanes[0]?.bars).toMatchObject([
      { start: 0, length: 0.625, after: 0 },
      { start: 0.75, length: 0.25, after: 6_000, waitedFrom: 0.625 },
    ]);
    expect(ticks).toEqual([0, 2_000, 4_000, 6_000]);
  });

  it('has first what was tried first, and last what was not tried yet', () => {
    const delivery = (destination: string, ...attempts: ReturnType<typeof attempt>[]) => ({
      ...{ id: destination, destination, state: 'pending' as const, attempts },
    });
    const { lanes } = wayOf({
      receivedAt,
      deliveries: [
        delivery('paused'),
        delivery('later', attempt('2026-11-20T14:00:02.000Z', 1)),
        delivery('at once', attempt('2026-11-20T14:00:01.000Z', 1)),
      ],
    });
    expect(lanes.map((lane) => lane.delivery.destination)).toEqual(['at once', 'later', 'paused']);
  });

  it('shows of a thousand deliveries those that are not done, in their order', () => {
    const deliveries = Array.from({ length: 1_000 }, (_, nth) => ({
      ...{ id: `1-${nth}`, destination: `lake-${nth}`, attempts: [attempt(receivedAt, 1)] },
      state: nth % 400 === 399 ? ('retrying' as const) : ('delivered' as const),
    }));
    const shown = mostTelling(wayOf({ receivedAt, deliveries }).lanes, 4);
    expect(shown.map(({ delivery }) => delivery.destination)).toEqual([
      'lake-0',
      'lake-1',
      'lake-399',
      'lake-799',
    ]);
  });

  it('tells the endpoints of a destination apart by as little as does', () => {
    expect([...endpointLabels(['https://a.example/in', 'https://a.example/in'])]).toEqual([]);
    expect([...endpointLabels(['https://a.example/in', 'https://b.example:81/in']).values()]).toEqual([
      'a.example',
      'b.example:81',
    ]);
    expect([...endpointLabels(['https://a.example/one', 'https://a.example/two?x=1']).values()]).toEqual([
      '/one',
      '/two?x=1',
    ]);
    expect([...endpointLabels(['https://a.example/one', 'http://a.example/one']).values()]).toEqual([
      'https://a.example/one',
      'http://a.example/one',
    ]);
  });

  it('has marks that are whole minutes where it takes minutes, and whole hours where it takes hours', () => {
    const wayOver = (length: number) =>
      wayOf({
        receivedAt,
        deliveries: [
          { id: '1-1', destination: 'crm', state: 'dead', attempts: [attempt(receivedAt, length)] },
        ],
      }).ticks;
    expect(wayOver(150_000)).toEqual([0, 60_000, 120_000]);
    expect(wayOver(18_000_000)).toEqual([0, 3_600_000, 7_200_000, 10_800_000, 14_400_000]);
  });

  it('stands before anything was tried, and when the clock was set back', () => {
    expect(wayOf({ receivedAt, deliveries: [] })).toMatchObject({ lanes: [], span: 25 });
    const { lanes } = wayOf({
      receivedAt,
      deliveries: [
        { id: '1-1', destination: 'crm', state: 'dead', attempts: [attempt('2026-11-20T13:00:00.000Z', 1)] },
      ],
    });
    expect(lanes[0]?.bars[0]).toMatchObject({ start: 0, after: 0 });
  });
});
