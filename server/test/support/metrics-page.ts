/** One series of a page: its name, its labels, its value. */
export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface MetricFamily {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly series: readonly Series[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+|Inf)$|^NaN$/i;

/**
 * Reads a page of the text format 0.0.4 as strictly as Prometheus and its linter. Throws at the first error,
 * with its line.
 */
export function parseMetrics(text: string): Map<string, MetricFamily> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const families = new Map<string, MetricFamily & { series: Series[] }>();
  const seen = new Set<string>();
  let help: { name: string; text: string } | undefined;
  let family: (MetricFamily & { series: Series[] }) | undefined;
  for (const line of text.slice(0, -1).split('\n')) {
    const wrong = (why: string) => new Error(`${why}: ${line}`);
    if (line.startsWith('# HELP ')) {
      const [, name = '', words = ''] = /^# HELP (\S+) (.+)$/.exec(line) ?? [];
      if (!NAME.test(name) || families.has(name)) throw wrong('no new name');
      help = { name, text: words };
    } else if (line.startsWith('# TYPE ')) {
      const [, name = '', type = ''] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line) ?? [];
      if (help?.name !== name) throw wrong('a type without its help');
      family = { name, type, help: help.text, series: [] };
      families.set(name, family);
      if ((type === 'counter') !== name.endsWith('_total'))
        throw wrong('counters, and nothing else, end in _total');
    } else {
      const series = seriesIn(line);
      if (family === undefined || !belongs(series.name, family)) throw wrong('not of the family above');
      const key = `${series.name} ${JSON.stringify(Object.entries(series.labels).sort())}`;
      if (seen.has(key)) throw wrong('the same series twice');
      seen.add(key);
      if (family.type !== 'gauge' && !(series.value >= 0)) throw wrong('counts are not negative');
      family.series.push(series);
    }
  }
  for (const one of families.values()) if (one.type === 'histogram') checkHistogram(one);
  return families;
}

function belongs(name: string, { name: family, type }: MetricFamily): boolean {
  return type === 'histogram'
    ? [`${family}_bucket`, `${family}_sum`, `${family}_count`].includes(name)
    : name === family;
}

function seriesIn(line: string): Series {
  const [, name = '', inside, number = ''] = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  if (!NAME.test(name) || !NUMBER.test(number)) throw new Error(`no series: ${line}`);
  const value = Number(number.replace(/inf/i, 'Infinity'));
  return { name, labels: inside === undefined ? {} : labelsIn(inside, line), value };
}

function labelsIn(inside: string, line: string): Record<string, string> {
  const labels: Record<string, string> = {};
  let rest = inside;
  while (rest !== '') {
    const [all = '', label = '', value = ''] =
      /^([^=]+)="((?:[^"\\]|\\[\\"n])*)"(?:,(?=.)|$)/.exec(rest) ?? [];
    if (!LABEL.test(label) || label in labels) throw new Error(`no labels: ${line}`);
    labels[label] = value.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped));
    rest = rest.slice(all.length);
  }
  return labels;
}

function checkHistogram({ name, series }: MetricFamily): void {
  const groups = Map.groupBy(series, ({ labels: { le: _, ...others } }) => JSON.stringify(others));
  for (const [labels, group] of groups) {
    const buckets = group.filter((one) => one.name === `${name}_bucket`);
    const bounds = buckets.map((one) => Number(one.labels['le']?.replace('+Inf', 'Infinity')));
    const rises = (numbers: readonly number[]) => numbers.every((n, at) => at === 0 || n >= numbers[at - 1]!);
    const count = group.filter((one) => one.name === `${name}_count`).map(({ value }) => value);
    const isWhole =
      rises(bounds) &&
      bounds.at(-1) === Number.POSITIVE_INFINITY &&
      rises(buckets.map(({ value }) => value)) &&
      count.length === 1 &&
      buckets.at(-1)?.value === count[0] &&
      group.filter((one) => one.name === `${name}_sum`).length === 1;
    if (!isWhole) throw new Error(`no histogram: ${name} ${labels}`);
  }
}
