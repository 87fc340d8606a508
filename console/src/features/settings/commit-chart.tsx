import { useQuery } from '@tanstack/react-query';
import { Chart } from '../../ui/chart.tsx';
import { duration } from '../../ui/format.ts';
import { latenciesQuery } from './queries.ts';

/** Chart of the duration of commits in the last hour: a slow disk shows here first. */
export function CommitChart() {
  const { data } = useQuery(latenciesQuery);
  const series = data?.series ?? {};
  return (
    <Chart
      title="Commits"
      unit="until on stable storage, log scale"
      group="system"
      isLog
      times={data?.times ?? []}
      format={(value) => (value < 0.1 ? '0' : duration(value))}
      series={[
        { label: 'p50', tone: 'water', values: series['commitP50'] ?? [], isFilled: true },
        { label: 'p99', tone: 'water', values: series['commitP99'] ?? [], dash: [5, 3] },
      ]}
    />
  );
}
