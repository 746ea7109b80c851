// One collective on an explicit topology, packet by packet, with ns-3's point-to-point links.
//
// Every rank works through the steps of its schedule: it sends what the step asks for at once and goes on when all
// bytes of the step meant for it have arrived. Nodes that are not the destination forward by a static route.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ns3/data-rate.h"
#include "ns3/drop-tail-queue.h"
#include "ns3/flow-id-tag.h"
#include "ns3/mac48-address.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/simulator.h"

namespace servesweep
{

class Collective
{
  public:
    Collective(uint32_t nodes, uint32_t ranks, uint32_t steps, uint32_t packetBytes)
        : m_nodes(nodes),
          m_step(ranks, 0),
          m_expected(ranks, std::vector<uint64_t>(steps, 0)),
          m_received(ranks, std::vector<uint64_t>(steps, 0)),
          m_outgoing(ranks, std::vector<std::vector<uint32_t>>(steps)),
          m_packetBytes(packetBytes)
    {
        for (auto& node : m_nodes)
        {
            node = ns3::CreateObject<ns3::Node>();
        }
    }

    void AddLink(uint32_t a, uint32_t b, double gbPerS, double latencyNs)
    {
        auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
        channel->SetAttribute("Delay", ns3::TimeValue(ns3::PicoSeconds(int64_t(latencyNs * 1e3))));
        for (auto [from, to] : {std::make_pair(a, b), std::make_pair(b, a)})
        {
            auto device = ns3::CreateObject<ns3::PointToPointNetDevice>();
            auto queue = ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>();
            queue->SetMaxSize(ns3::QueueSize("100000000p"));
            device->SetQueue(queue);
            device->SetMtu(65535);
            device->SetAddress(ns3::Mac48Address::Allocate());
            device->SetDataRate(ns3::DataRate(uint64_t(gbPerS * 8e9)));
            m_nodes[from]->AddDevice(device);
            device->Attach(channel);
            device->SetReceiveCallback(ns3::MakeCallback(&Collective::Receive, this));
            m_devices[{from, to}] = device;
            m_owner[ns3::PeekPointer(device)] = from;
        }
    }

    void AddRoute(uint32_t node, uint32_t destination, uint32_t next)
    {
        m_routes[{node, destination}] = m_devices.at({node, next});
    }

    void AddTransfer(uint32_t step, uint32_t source, uint32_t destination, uint64_t bytes)
    {
        m_outgoing[source][step].push_back(uint32_t(m_transfers.size()));
        m_expected[destination][step] += bytes;
        m_transfers.push_back({step, destination, bytes});
    }

    // Time until the last rank has finished its last step, ns; negative where a packet was lost.
    double Run()
    {
        for (uint32_t rank = 0; rank < m_step.size(); ++rank)
        {
            ns3::Simulator::ScheduleNow(&Collective::Send, this, rank);
        }
        ns3::Simulator::Run();
        ns3::Simulator::Destroy();
        for (auto step : m_step)
        {
            m_lost |= step < m_expected[0].size();
        }
        return m_lost ? -1.0 : m_endNs;
    }

  private:
    struct Transfer
    {
        uint32_t step;
        uint32_t destination;
        uint64_t bytes;
    };

    // The current step's transfers of `rank`, their packets in turn, then on while nothing is to be awaited.
    void Send(uint32_t rank)
    {
        auto step = m_step[rank];
        if (step == m_expected[rank].size())
        {
            m_endNs = std::max(m_endNs, ns3::Simulator::Now().GetPicoSeconds() / 1e3);
            return;
        }
        std::vector<std::pair<uint32_t, uint64_t>> left;
        for (auto id : m_outgoing[rank][step])
        {
            left.emplace_back(id, m_transfers[id].bytes);
        }
        for (bool any = true; any;)
        {
            any = false;
            for (auto& [id, bytes] : left)
            {
                auto size = std::min<uint64_t>(bytes, m_packetBytes);
                if (size > 0)
                {
                    auto packet = ns3::Create<ns3::Packet>(uint32_t(size));
                    packet->AddPacketTag(ns3::FlowIdTag(id));
                    Forward(rank, packet, m_transfers[id].destination);
                    bytes -= size;
                    any = true;
                }
            }
        }
        Advance(rank);
    }

    void Advance(uint32_t rank)
    {
        auto step = m_step[rank];
        if (step < m_expected[rank].size() && m_received[rank][step] == m_expected[rank][step])
        {
            ++m_step[rank];
            ns3::Simulator::ScheduleNow(&Collective::Send, this, rank);
        }
    }

    void Forward(uint32_t node, ns3::Ptr<ns3::Packet> packet, uint32_t destination)
    {
        auto device = m_routes.at({node, destination});
        m_lost |= !device->Send(packet, device->GetBroadcast(), 0x0800);
    }

    bool Receive(ns3::Ptr<ns3::NetDevice> device,
                 ns3::Ptr<const ns3::Packet> packet,
                 uint16_t,
                 const ns3::Address&)
    {
        ns3::FlowIdTag tag;
        packet->PeekPacketTag(tag);
        const auto& transfer = m_transfers[tag.GetFlowId()];
        auto node = m_owner.at(ns3::PeekPointer(device));
        if (node != transfer.destination)
        {
            Forward(node, packet->Copy(), transfer.destination);
            return true;
        }
        m_received[node][transfer.step] += packet->GetSize();
        if (transfer.step == m_step[node])
        {
            Advance(node);
        }
        return true;
    }

    std::vector<ns3::Ptr<ns3::Node>> m_nodes;
    std::vector<uint32_t> m_step;
    std::vector<std::vector<uint64_t>> m_expected;
    std::vector<std::vector<uint64_t>> m_received;
    std::vector<std::vector<std::vector<uint32_t>>> m_outgoing;
    std::vector<Transfer> m_transfers;
    std::map<std::pair<uint32_t, uint32_t>, ns3::Ptr<ns3::PointToPointNetDevice>> m_devices;
    std::map<std::pair<uint32_t, uint32_t>, ns3::Ptr<ns3::PointToPointNetDevice>> m_routes;
    std::map<const ns3::NetDevice*, uint32_t> m_owner;
    uint32_t m_packetBytes;
    double m_endNs = 0.0;
    bool m_lost = false;
};

} // namespace servesweep
