// Which service calls which: a drawing, and the same as a table.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import {
  address,
  exploreBase,
  go,
  isPlainClick,
  kept,
  type Place,
  projectPath,
  rangeOf,
  timesOf,
  type ViewProps,
} from '../../address/address';
import type { ServiceEdge, ServiceMap, ServiceNode } from '../../api/api_types';
import { layered, type Placed } from '../../charts/layers';
import { equals, lacks } from '../../filters/language';
import { CopyAs } from '../../ui/copy';
import { figure, Table } from '../../ui/elements';
import { count, duration, share } from '../../ui/format';
import { Covered, Empty, Loaded, useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Link, Text, visible } from '../../ui/text';

export default function ServiceMapView({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const range = rangeOf(here);
  const asked = { path: `${exploreBase(place)}/services/map?${timesOf(here)}` };
  const query = useQuery<ServiceMap>(asked);
  return (
    <section aria-label="Service map">
      <div class="bar-row">
        <h1>Service map</h1>
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>
        {(data) =>
          data.nodes.length === 0 ? (
            <Empty
              title={
                data.scanned === 0
                  ? `No service sent a span from ${range.from} to ${range.to}.`
                  : `Only one trace in ${data.sample} is counted, and no counted trace is from ${range.from} to ${range.to}. Choose a shorter time to count more traces.`
              }
            />
          ) : (
            <>
              <div class="panel scroll">
                <Drawing data={data} place={place} rest={kept(here)} />
              </div>
              <p class={data.sample > 1 ? 'covered partial' : 'covered'}>
                {data.sample > 1
                  ? `Only one trace in ${data.sample} was counted. All traces together have about ${data.sample} times as many calls.`
                  : 'All traces of this time were counted.'}
              </p>
              {data.truncated && <p class="covered partial">There are more services or calls than are shown.</p>}
              <Covered of={data} what="spans" />
              <div class="panel scroll">
                <Edges data={data} place={place} rest={kept(here)} />
              </div>
            </>
          )
        }
      </Loaded>
    </section>
  );
}

interface DrawingProps {
  data: ServiceMap;
  place: Place;
  rest: string;
}

const NODE = { width: 160, height: 40, gapX: 110, gapY: 18, pad: 12 };
const NAME_LENGTH = 19;

function exploring(place: Place, rest: string, service: string | null): string {
  const query = new URLSearchParams(rest);
  query.set('q', service === null ? lacks('serviceName') : equals('serviceName', service));
  return `${projectPath(place, 'explore')}?${query}`;
}

/** What tells a service from others; spans without a service are one, too. */
function idOf(service: string | null): string {
  return service === null ? 'none' : `name ${service}`;
}

function keyOf(edge: ServiceEdge): string {
  return `${idOf(edge.from)} ${idOf(edge.to)}`;
}

function nameOf(service: string | null): string {
  return service === null ? '(no service)' : service === '' ? '(empty)' : visible(service);
}

function Drawing({ data, place, rest }: DrawingProps): JSX.Element {
  const [near, setNear] = useState<string | null>(null);
  const edges = data.edges.filter((edge) => edge.from !== edge.to);
  const placed = layered(
    edges.map((edge) => ({ from: idOf(edge.from), to: idOf(edge.to) })),
    data.nodes.map((node) => idOf(node.serviceName)),
  );
  const at = new Map(placed.map((one) => [one.name, one]));
  const deepest = Math.max(...placed.map((one) => one.layer));
  const tallest = Math.max(...placed.map((one) => one.row));
  const width = NODE.pad * 2 + (deepest + 1) * NODE.width + deepest * NODE.gapX;
  const height = NODE.pad * 2 + (tallest + 1) * NODE.height + tallest * NODE.gapY + NODE.gapY;
  const most = Math.max(1, ...edges.map((edge) => edge.count));
  return (
    <svg
      class="service-map"
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role="group"
      aria-label="Services and calls"
    >
      {edges.map((edge) => (
        <path
          key={keyOf(edge)}
          class={classOf(edge, near)}
          d={curve(at.get(idOf(edge.from)), at.get(idOf(edge.to)))}
          stroke-width={1 + (3 * Math.log1p(edge.count)) / Math.log1p(most)}
        >
          <title>{`${nameOf(edge.from)} to ${nameOf(edge.to)}: ${said(edge)}`}</title>
        </path>
      ))}
      {data.nodes.map((node) => {
        const id = idOf(node.serviceName);
        const one = at.get(id);
        if (one === undefined) return null;
        const { x, y } = cornerOf(one);
        return (
          <a
            key={id}
            href={exploring(place, rest, node.serviceName)}
            onClick={(event) => {
              if (!isPlainClick(event)) return;
              event.preventDefault();
              go(exploring(place, rest, node.serviceName));
            }}
            aria-label={`${nameOf(node.serviceName)}: ${ofNode(node)}`}
            onMouseEnter={() => setNear(id)}
            onMouseLeave={() => setNear(null)}
            onFocus={() => setNear(id)}
            onBlur={() => setNear(null)}
          >
            <title>{`${nameOf(node.serviceName)}: ${ofNode(node)}`}</title>
            <rect class={node.errors > 0 ? 'failed' : ''} x={x} y={y} width={NODE.width} height={NODE.height} rx="6" />
            <text x={x + NODE.width / 2} y={y + 15} text-anchor="middle">
              {shortened(nameOf(node.serviceName))}
            </text>
            <text class="figures" x={x + NODE.width / 2} y={y + 31} text-anchor="middle">
              {node.count === 0
                ? `${count(node.spans)} spans`
                : `${count(node.count)} calls${node.errors > 0 ? `, ! ${share(node.errors / node.count)}` : ''}`}
            </text>
          </a>
        );
      })}
    </svg>
  );
}

function ofNode(node: ServiceNode): string {
  return node.count === 0 ? `${node.spans.toLocaleString('en')} spans, none of them called` : said(node);
}

function classOf(edge: ServiceEdge, near: string | null): string {
  const failed = edge.errors > 0 ? ' failed' : '';
  if (near === null) return `call${failed}`;
  return idOf(edge.from) === near || idOf(edge.to) === near ? `call${failed} near` : `call${failed} far`;
}

function cornerOf(node: Placed): { x: number; y: number } {
  return { x: NODE.pad + node.layer * (NODE.width + NODE.gapX), y: NODE.pad + node.row * (NODE.height + NODE.gapY) };
}

/** From the right side of the caller to the left side of the called; a call back runs below both. */
function curve(from: Placed | undefined, to: Placed | undefined): string {
  if (from === undefined || to === undefined) return '';
  const start = cornerOf(from);
  const end = cornerOf(to);
  const [x1, y1] = [start.x + NODE.width, start.y + NODE.height / 2];
  const [x2, y2] = [end.x, end.y + NODE.height / 2];
  if (to.layer > from.layer) {
    const middle = (x1 + x2) / 2;
    return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
  }
  const low = Math.max(start.y, end.y) + NODE.height + NODE.gapY / 2;
  return `M${x1} ${y1}C${x1 + 40} ${low} ${x2 - 40} ${low} ${x2} ${y2}`;
}

function shortened(name: string): string {
  return name.length <= NAME_LENGTH ? name : `${name.slice(0, NAME_LENGTH - 3)}...`;
}

function said(calls: ServiceEdge | ServiceNode): string {
  return `${calls.count.toLocaleString('en')} calls, ${share(calls.errors / calls.count)} with errors, ${duration(calls.avgMs)} on average`;
}

function Edges({ data, place, rest }: DrawingProps): JSX.Element {
  return (
    <Table
      caption="Calls between services"
      head={['From', 'To', ['Calls', 'number'], ['Errors', 'number'], ['Average', 'number']]}
      items={data.edges}
      by={keyOf}
      row={(edge) => [
        ...[edge.from, edge.to].map((service) => (
          <Link to={exploring(place, rest, service)}>
            <Text of={service} />
          </Link>
        )),
        figure(count(edge.count), `${edge.count} calls`),
        figure(
          <span class={edge.errors > 0 ? 'error' : ''}>{share(edge.errors / edge.count)}</span>,
          `${edge.errors} calls`,
        ),
        figure(duration(edge.avgMs), `${edge.avgMs} ms`),
      ]}
    />
  );
}
