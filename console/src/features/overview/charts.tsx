import { getRouteApi } from '@tanstack/react-router';
import { Chart } from '../../ui/chart.tsx';
import { duration, shortNumber } from '../../ui/format.ts';
import { type Numbers, perSecond } from './queries.ts';

const route = getRouteApi('/shell/');

interface ChartsProps {
  readonly numbers: Numbers;
}

/** Two charts of one range with one cursor. A range that is drawn in either becomes the range of the page. */
export function Charts({ numbers: { times, step, series } }: ChartsProps) {
  const navigate = route.useNavigate();
  const zoom = (from: number, to: number): void =>
    void navigate({
      search: (before) => ({ ...before, from: new Date(from).toISOString(), to: new Date(to).toISOString() }),
    });
  return (
    <div className="two" id="latency">
      <Chart
        title="Deliveries by outcome"
        unit="per second, log scale"
        group="overview"
        isLog
        times={times}
        format={(value) => shortNumber(Number(value.toPrecision(2)))}
        onZoom={zoom}
        series={[
          { label: 'delivered', tone: 'ok', values: perSecond(series['delivered'], step) },
          { label: 'retrying', tone: 'warn', values: perSecond(series['retrying'], step), dash: [5, 3] },
          { label: 'dead', tone: 'bad', values: perSecond(series['dead'], step), dash: [1.5, 3] },
        ]}
      />
      <Chart
        title="Latency, received to delivered"
        unit="log scale"
        group="overview"
        isLog
        times={times}
        format={(value) => (value < 0.1 ? '0' : duration(value))}
        onZoom={zoom}
        series={[
          { label: 'p50', tone: 'water', values: series['deliveryP50'] ?? [], isFilled: true },
          { label: 'p99', tone: 'water', values: series['deliveryP99'] ?? [], dash: [5, 3] },
        ]}
      />
    </div>
  );
}
