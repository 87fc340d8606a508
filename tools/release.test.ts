import { describe, expect, it } from 'vitest';
import { lacksOf, type Tree } from './release.ts';
import { billOf } from './sbom.ts';

const READY: Tree = {
  versions: { '.': '1.2.0', server: '1.2.0', cli: '1.2.0' },
  goVersion: '2.1.0',
  tags: ['v1.2.0'],
  hasGoTag: true,
  hasChanges: false,
  hasGo: true,
  changelog: '# Changelog\n\n## 1.2.0 · 2027-01-31\n\n### Added\n\n## 1.1.0 · 2027-01-01\n',
};

describe('a release', () => {
  it('lacks nothing when versions, tags and the changelog agree', () => {
    expect(lacksOf(READY)).toEqual([]);
  });

  it.each<[string, Partial<Tree>, string]>([
    [
      'a part of another version',
      { versions: { ...READY.versions, server: '1.1.0' } },
      'server/package.json',
    ],
    ['changes in no commit', { hasChanges: true }, 'commit them'],
    [
      'a changelog that begins with what is not released',
      { changelog: '## Unreleased\n\n## 1.2.0' },
      'write it',
    ],
    ['a changelog that ends before it', { changelog: '## 1.2.0-rc.1\n' }, '"## 1.2.0"'],
    ['no tag', { tags: [''] }, 'git tag v1.2.0'],
    ['the tag of another version', { tags: ['v1.2.0-rc.1'] }, 'git tag v1.2.0'],
    ['a Go module that is not as its tag has it', { hasGoTag: false }, 'git tag clients/go/v2.1.0'],
    ['no Go', { hasGo: false }, 'install Go'],
  ])('is none with %s', (_, change, said) => {
    const lacks = lacksOf({ ...READY, ...change });
    expect(lacks).toHaveLength(1);
    expect(lacks[0]).toContain(said);
  });
});

describe('the bill of materials', () => {
  it('has the names of the packages, and is the same for the same commit', () => {
    const component = (name: string, purl: string) => ({ 'bom-ref': purl, name, version: '1.0.0', purl });
    const made = (serialNumber: string, timestamp: string) => ({
      serialNumber,
      metadata: { timestamp, component: component('main', 'pkg:npm/millrace-workspace@1.0.0') },
      components: [
        component('typescript', 'pkg:npm/%40millrace/client@1.0.0'),
        component('segment-node-1', 'pkg:npm/%40segment/analytics-node@1.0.0'),
        component('elsewhere', 'pkg:generic/elsewhere'),
      ],
    });
    const committed = new Date('2027-01-31T12:00:00Z');
    const bill = billOf(made('urn:uuid:1', '2027-02-01T00:00:00.000Z'), committed);
    expect(bill.metadata.component).toMatchObject({ name: 'millrace-workspace', type: 'application' });
    expect(bill.metadata.timestamp).toBe('2027-01-31T12:00:00.000Z');
    expect(bill.components.map(({ name }) => name)).toEqual([
      '@millrace/client',
      '@segment/analytics-node',
      'elsewhere',
    ]);
    expect(billOf(made('urn:uuid:2', '2027-02-02T00:00:00.000Z'), committed)).toEqual(bill);
  });
});
