import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Event } from '../../model/event.ts';
import { COMPARISON_RULES, type ComparisonRule } from './contract.ts';
import { differencesOf } from './rules.ts';

interface Case {
  readonly id: string;
  readonly name: string;
  readonly incumbent: Event;
  readonly ours: Event | null;
  readonly expect: 'equal' | 'missing_ours' | readonly string[];
}

const { cases } = JSON.parse(
  readFileSync(new URL('../../../../spec/fixtures/comparison/pairs.json', import.meta.url), 'utf8'),
) as { readonly cases: readonly Case[] };

const ALL = new Set(Object.keys(COMPARISON_RULES) as ComparisonRule[]);
const without = (...rules: ComparisonRule[]) => new Set([...ALL].filter((one) => !rules.includes(one)));

const [first] = cases;
const there = first!.incumbent;
const here = first!.ours!;

describe('the differences of two events of one call', () => {
  it.each(cases.filter(({ ours }) => ours !== null).map((one) => [`${one.id}: ${one.name}`, one] as const))(
    '%s',
    (_, { incumbent, ours, expect: wanted }) => {
      const found = differencesOf({ there: incumbent, here: ours! }, ALL);
      expect(found.length === 0 ? 'equal' : found).toEqual(wanted);
    },
  );

  it('are found in objects by their paths, and in lists as a whole', () => {
    const deep = { a: { b: { c: 1, d: [{ e: 1 }] } } };
    const other = { a: { b: { c: 2, d: [{ e: 2 }] } } };
    expect(
      differencesOf({ there: { ...there, properties: deep }, here: { ...here, properties: other } }, ALL),
    ).toEqual(['properties.a.b.c', 'properties.a.b.d']);
    expect(
      differencesOf({ there: { ...there, properties: deep }, here: { ...here, properties: {} } }, ALL),
    ).toEqual(['properties.a']);
  });

  it('are none where one side has the digits of a number that the other has rounded', () => {
    const pair = (one: unknown, two: unknown) => ({
      there: { ...there, properties: { n: one } } as Event,
      here: { ...here, properties: { n: two } } as Event,
    });
    expect(differencesOf(pair(2 ** 63, '9223372036854775808'), ALL)).toEqual([]);
    expect(differencesOf(pair(10, '10'), ALL)).toEqual(['properties.n']);
    expect(differencesOf(pair(2 ** 63, '9223372036854775808'), without('numbers'))).toEqual(['properties.n']);
  });

  it('are none where only IPv6 is not noted there', () => {
    const { ip: _, ...context } = there.context;
    const pair = (ip: string) => ({
      there: { ...there, context } as Event,
      here: { ...here, context: { ...here.context, ip } } as Event,
    });
    expect(differencesOf(pair('2001:db8::1'), ALL)).toEqual([]);
    expect(differencesOf(pair('2001:db8::1'), without('addresses'))).toEqual(['context.ip']);
    expect(differencesOf(pair('192.0.2.4'), ALL)).toEqual(['context.ip']);
  });

  it('take the arrival at the other service, where the event was forwarded', () => {
    const forwarded = {
      ...there,
      originalReceivedAt: there.receivedAt,
      receivedAt: '2026-03-01T14:00:00.000Z',
    };
    const moved = { ...here, timestamp: '2026-03-01T10:00:30.100Z' };
    expect(differencesOf({ there: forwarded, here: moved }, ALL)).toEqual(['timestamp']);
  });

  it.each<[ComparisonRule, string[]]>([
    ['transport', ['channel', 'receivedAt', 'projectId', 'version', 'writeKey', '_metadata']],
    ['timestamp', ['timestamp']],
  ])('are shown where the rule %s is switched off', (rule, wanted) => {
    expect(differencesOf({ there, here }, without(rule))).toEqual(wanted);
  });
});
